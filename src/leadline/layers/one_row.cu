// One step of decoding one row: `one_row.py` says what it computes and how its programs hand on. Sizes come from there.
//
//   a program   one a multiprocessor; eight warps that multiply and one that fetches weights
//   layers      (L, PROGRAMS, ...) bytes: of a program, its rows of W, W_o, W1 and W2, each with what belongs to a row
//   unembed     (PROGRAMS, TURNS, ...) bytes: of a program, its rows of E, SCORE_ROWS at a time
//   qkv ...     what was told, (L, COPIES, PROGRAMS, rows): 32 bytes of memory have one writer, who writes them at once

#include "looking.cuh"

typedef unsigned long long u64;

constexpr int THREADS = WARPS * 32, COPIES = WARPS, SECTOR = 8, NONE = 0x7fffffff;
constexpr int OWN = (V + PROGRAMS - 1) / PROGRAMS, TURNS = (OWN + SCORE_ROWS - 1) / SCORE_ROWS;
constexpr int HELD = (D / 4 + THREADS - 1) / THREADS;
constexpr u32 OUT_AT = READ_BYTES, WIDEN_AT = OUT_AT + OUT_BYTES, NARROW_AT = WIDEN_AT + WIDEN_BYTES;
constexpr u32 LAYER = NARROW_AT + NARROW_BYTES;
// slots for rows of E lie where the layer lay, and behind it
constexpr int TAKEN = LAYER < SLOTS * SCORE_BYTES ? (LAYER + SCORE_BYTES - 1) / SCORE_BYTES : SLOTS;
constexpr int EARLY = SLOTS - TAKEN < TURNS ? SLOTS - TAKEN : TURNS;
constexpr int HEAD = K + SECTOR;  // what is told of a head: its sum, and what the sum is to be divided by
__host__ __device__ constexpr int sectors(int rows) { return (rows + SECTOR - 1) / SECTOR * SECTOR; }

// numbers of a row of weights in shared memory: whole groups of 32, and 16 bytes more, so that rows lie in other banks
__host__ __device__ constexpr int padded(int size) { return (size + 31) / 32 * 32 + 8; }

template <int SIZE>
struct Vector {  // as two bfloat16 a number, in the order in which matrix units take them: 16 bytes a lane and group
    static constexpr int GROUPS_OF_32 = (SIZE + 31) / 32;
    u32 parts[2][GROUPS_OF_32 * 16];

    __device__ __forceinline__ void put(int i, float4 x) {  // numbers 4 i … 4 i + 3
        int to = i / 8 * 16 + i % 2 * 8 + i % 8 / 2;
        u32 a = two(x.x, x.y), b = two(x.z, x.w);
        parts[0][to] = a, parts[0][to + 4] = b;
        parts[1][to] = two(x.x - low(a), x.y - high(a)), parts[1][to + 4] = two(x.z - low(b), x.w - high(b));
    }
    __device__ __forceinline__ void clear(int t) {  // what lies behind the last number, once
        for (int i = t; i < GROUPS_OF_32 * 16; i += THREADS) parts[0][i] = parts[1][i] = 0;
    }
};

struct Shared {
    u64 full[4], empty[4], score_full[SLOTS], score_empty[SLOTS];
    __align__(16) Vector<D> h;
    __align__(16) Vector<A> heads_in;
    __align__(16) Vector<F> hidden;
    float2 spread[WARPS];
    float4 qkv[3 * K / 4];
    Heads heads;
    float2 best[WARPS], mass[WARPS];
    float sums[WARPS][32];
    i64 rooms[3 * L];
    unsigned char allowed[OWN];
};

__device__ __forceinline__ void add(float4& h, float4 x) { h.x += x.x, h.y += x.y, h.z += x.z, h.w += x.w; }
__device__ __forceinline__ void together() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }

// ---- telling and hearing: the last bit of a number says which step it belongs to

__device__ __forceinline__ void tell(u32* at, float x, u32 bit) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at), "r"((__float_as_uint(x) & ~1u) | bit) : "memory");
}
__device__ __forceinline__ float heard(u32 x) { return __uint_as_float(x & ~1u); }
__device__ __forceinline__ uint4 peek(const u32* at) {
    uint4 x;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(at) : "memory");
    return x;
}
__device__ __forceinline__ uint2 peek_pair(const u32* at) {
    uint2 x;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(at) : "memory");
    return x;
}
__device__ __forceinline__ u32 late(uint4 x, u32 bit) { return (x.x ^ bit) | (x.y ^ bit) | (x.z ^ bit) | (x.w ^ bit); }
__device__ __forceinline__ void patient(u32& looks) {  // about a second: then a program is missing, which is a fault
    if (++looks > (1u << 21)) __trap();
}
// the SIZE numbers of programs of ROWS each, four a thread at once
template <int SIZE, int ROWS>
struct Heard {
    static constexpr int COUNT = (SIZE / 4 + THREADS - 1) / THREADS;
    uint4 x[COUNT];

    __device__ __forceinline__ Heard(const u32* from, u32 bit, int t) {
        u32 looks = 0;
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (t + i * THREADS < SIZE / 4) x[i] = peek(from + place(t + i * THREADS));
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (t + i * THREADS < SIZE / 4)
                while (late(x[i], bit) & 1) patient(looks), x[i] = peek(from + place(t + i * THREADS));
    }
    static __device__ __forceinline__ int place(int i) { return i / (ROWS / 4) * sectors(ROWS) + i % (ROWS / 4) * 4; }
    __device__ __forceinline__ float4 of(int i) const {
        return make_float4(heard(x[i].x), heard(x[i].y), heard(x[i].z), heard(x[i].w));
    }
};

// ---- fetching weights: barriers say when they are there, and when they may be written over

__device__ __forceinline__ u32 near(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier(u64* b, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(near(b)), "r"(count) : "memory");
}
__device__ __forceinline__ void arrive(u64* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(near(b)) : "memory");
}
__device__ __forceinline__ void wait(u64* b, u32 phase) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(near(b)), "r"(phase & 1)
        : "memory");
}
__device__ __forceinline__ void fetch(void* to, const void* from, u32 bytes, u64* b, u64 policy) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(near(b)), "r"(bytes) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
        ::"r"(near(to)), "l"(from), "r"(bytes), "r"(near(b)), "l"(policy) : "memory");
}
__device__ void fetch_all(char* memory, Shared& s, const char* layers, const char* unembed, int p) {
    u64 policy;  // weights are not looked at again before all others were: they need not stay in a cache
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    const u32 from[5] = {0, OUT_AT, WIDEN_AT, NARROW_AT, LAYER};
    layers += (u64)p * LAYER, unembed += (u64)p * TURNS * SCORE_BYTES;
    auto rows = [&](int c) {
        char* to = memory + (c + TAKEN) % SLOTS * SCORE_BYTES;
        fetch(to, unembed + (u64)c * SCORE_BYTES, SCORE_BYTES, s.score_full + c % SLOTS, policy);
    };
#pragma unroll 1
    for (int l = 0; l < L; ++l, layers += (u64)PROGRAMS * LAYER) {
#pragma unroll 1
        for (int i = 0; i < 4; ++i) {
            if (l) wait(s.empty + i, l - 1);
            fetch(memory + from[i], layers + from[i], from[i + 1] - from[i], s.full + i, policy);
        }
        if (!l)
            for (int c = 0; c < EARLY; ++c) rows(c);
    }
    for (int i = 0; i < 4; ++i) wait(s.empty + i, L - 1);
#pragma unroll 1
    for (int c = EARLY; c < TURNS; ++c) {
        if (c >= SLOTS) wait(s.score_empty + c % SLOTS, c / SLOTS - 1);
        rows(c);
    }
}

// ---- multiplying: matrix units take eight rows of weights and 16 numbers of a vector at once, both of its halves

__device__ __forceinline__ void four(uint4& w, u32 at) {  // four pieces of eight rows and eight columns
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "r"(at) : "memory");
}
__device__ __forceinline__ void multiply(float (&c)[4], u32 a, u32 b, u32 w0, u32 w1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %5}, {%7, %8}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a), "r"(0), "r"(b), "r"(w0), "r"(w1));
}
// of TILES times eight rows of weights, COUNT groups of their columns, first, first + STEP …: lane l < 4 gets the sums
// of rows 2 l and 2 l + 1 of each tile
template <int TILES, int SIZE, int COUNT, int STEP>
__device__ __forceinline__ void products(float2 (&y)[TILES], const char* w, const Vector<SIZE>& x, int first, int lane) {
    float c[TILES][4];
#pragma unroll
    for (int i = 0; i < TILES; ++i) c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
    const u32 at = near(w) + lane % 8 * padded(SIZE) * 2 + lane / 8 * 16;
    const u32* from = x.parts[lane / 4 % 2] + lane % 4 * 4;
    constexpr int AT_ONCE = COUNT < 6 ? COUNT : 6;
#pragma unroll 1
    for (int done = 0; done < COUNT; done += AT_ONCE) {
        uint4 v[AT_ONCE], m[TILES][AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) {
            int g = min(first + (done + j) * STEP, Vector<SIZE>::GROUPS_OF_32 - 1);
            bool there = lane < 8 && first + (done + j) * STEP < Vector<SIZE>::GROUPS_OF_32 && done + j < COUNT;
            v[j] = *(const uint4*)(from + g * 16);
            if (!there) v[j] = make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int i = 0; i < TILES; ++i) four(m[i][j], at + i * 8 * padded(SIZE) * 2 + g * 64);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
#pragma unroll
            for (int i = 0; i < TILES; ++i) {
                multiply(c[i], v[j].x, v[j].y, m[i][j].x, m[i][j].y);
                multiply(c[i], v[j].z, v[j].w, m[i][j].z, m[i][j].w);
            }
    }
#pragma unroll
    for (int i = 0; i < TILES; ++i)
        y[i] = make_float2(c[i][0] + __shfl_xor_sync(~0u, c[i][0], 4), c[i][1] + __shfl_xor_sync(~0u, c[i][1], 4));
}
// all ROWS rows of a program: of each, the sum, by every warp in lane `row`
template <int ROWS, int SIZE>
__device__ __forceinline__ float product(Shared& s, const char* w, const Vector<SIZE>& x, int warp, int lane) {
    constexpr int TILES = (ROWS + 7) / 8;
    float2 y[TILES];
    products<TILES, SIZE, (Vector<SIZE>::GROUPS_OF_32 + WARPS - 1) / WARPS, WARPS>(y, w, x, warp, lane);
    if (lane < 4)
#pragma unroll
        for (int i = 0; i < TILES; ++i) *(float2*)&s.sums[warp][i * 8 + 2 * lane] = y[i];
    together();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) sum += s.sums[i][lane];
    return sum;
}

// h to everybody of a program, with sum and sum of squares
__device__ __forceinline__ void spread(Shared& s, const float4 (&h)[HELD], int t, int warp, int lane) {
    float a = 0, b = 0;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        if (t + i * THREADS >= D / 4) break;
        s.h.put(t + i * THREADS, h[i]);
        a += h[i].x + h[i].y + h[i].z + h[i].w;
        b += h[i].x * h[i].x + h[i].y * h[i].y + h[i].z * h[i].z + h[i].w * h[i].w;
    }
#pragma unroll
    for (int d = 16; d; d /= 2) a += __shfl_xor_sync(~0u, a, d), b += __shfl_xor_sync(~0u, b, d);
    if (!lane) s.spread[warp] = make_float2(a, b);
    together();
}
__device__ __forceinline__ float2 norm(const Shared& s, float eps, bool rms) {  // mean, and one over the deviation
    float a = 0, b = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) a += s.spread[w].x, b += s.spread[w].y;
    float mean = rms ? 0 : a / D;
    return make_float2(mean, rsqrtf(b / D - mean * mean + eps));
}
__device__ __forceinline__ void join(float4 (&h)[HELD], const u32* from, u32 bit, int t) {
    Heard<D, BACK> x(from, bit, t);
#pragma unroll
    for (int i = 0; i < HELD; ++i) add(h[i], x.of(i));
}
__device__ __forceinline__ float active(float x) {
#if ACTIVATION == 0
    return __fdividef(x, 1 + __expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 1
    return 0.5f * x * (1 + erff(x * 0.7071067811865476f));
#elif ACTIVATION == 2
    return fmaxf(x, 0.f);
#else
    return __fdividef(x, 1 + __expf(-x));
#endif
}

// ---- eq. 2: one head on one part of the places so far

struct Part : Looking {
    int head, group, split;
};

__device__ __forceinline__ void look(Shared& s, Part& o, const u32* qkv, u32* looked, int at, u32 bit, int t) {
    for (int i = t; i < 3 * K / 4; i += THREADS) {
        int part = i / (K / 4), j = i % (K / 4);
        int row = ((part == 0 ? o.head : part == 1 ? H + o.group : H + G + o.group) * K) / 4 + j;
        const u32* from = qkv + row / (READ / 4) * sectors(READ) + row % (READ / 4) * 4;
        u32 looks = 0;
        uint4 y = peek(from);
        while (late(y, bit) & 1) patient(looks), y = peek(from);
        float4 x = make_float4(heard(y.x), heard(y.y), heard(y.z), heard(y.w));
        uint2 w = make_uint2(two(x.x, x.y), two(x.z, x.w));
        s.qkv[i] = part ? make_float4(low(w.x), high(w.x), low(w.y), high(w.y)) : x;
        if (part && o.split == 0 && o.head % (H / G) == 0)
            ((uint2*)(part == 1 ? o.keys : o.values))[(i64)at * (K / 4) + j] = w;
    }
    together();
    const float* q = (const float*)s.qkv;
    o.look(q, o.split == 0 && t < 32 ? q + K : 0, SCALE);
    s.heads.put(o);
    together();
    for (int i = t % 32; i < K; i += 32) {  // a copy a warp
        float3 y = s.heads.of(i);
        u32* to = looked + ((t / 32 * SPLITS + o.split) * H + o.head) * HEAD;
        tell(to + i, y.x, bit);
        if (i < 2) tell(to + K + i, i ? y.z : y.y, bit);
    }
}
// four numbers of a head out of its parts
__device__ __forceinline__ float4 hear_head(const u32* looked, int i, u32 bit) {
    uint4 x[SPLITS];
    uint2 m[SPLITS];
    u32 looks = 0;
    while (true) {
        u32 behind = 0;
#pragma unroll
        for (int j = 0; j < SPLITS; ++j) {
            const u32* from = looked + (j * H + 4 * i / K) * HEAD;
            x[j] = peek(from + 4 * i % K), m[j] = peek_pair(from + K);
        }
#pragma unroll
        for (int j = 0; j < SPLITS; ++j) behind |= late(x[j], bit) | (m[j].x ^ bit) | (m[j].y ^ bit);
        if (!(behind & 1)) break;
        patient(looks);
    }
    float larger = LEAST, whole = 0;
    float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < SPLITS; ++j) larger = fmaxf(larger, heard(m[j].x));
#pragma unroll
    for (int j = 0; j < SPLITS; ++j) {
        float a = __expf(heard(m[j].x) - larger);
        whole += a * heard(m[j].y);
        add(y, make_float4(a * heard(x[j].x), a * heard(x[j].y), a * heard(x[j].z), a * heard(x[j].w)));
    }
    whole = __frcp_rn(whole);
    return make_float4(y.x * whole, y.y * whole, y.z * whole, y.w * whole);
}

// ---- the largest of all, and log Σ e^score

struct Best {
    float top, most, total;
    int stands;

    __device__ __forceinline__ void with(float x, int at, float m, float n) {
        if (x > top || (x == top && at < stands)) top = x, stands = at;
        float larger = fmaxf(most, m);
        total = total * __expf(most - larger) + n * __expf(m - larger), most = larger;
    }
    __device__ __forceinline__ void over_lanes() {
#pragma unroll
        for (int d = 16; d; d /= 2) {
            float x = __shfl_xor_sync(~0u, top, d), m = __shfl_xor_sync(~0u, most, d);
            float n = __shfl_xor_sync(~0u, total, d);
            with(x, __shfl_xor_sync(~0u, stands, d), m, n);
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS + 32, 1)
step(i64* tokens, i64* at_, i64* words, float* log_p, i64* slot, i64* number, u32* turn, u32* done,
     const uint2* embed, const uint2* place, const char* layers, const char* unembed, const unsigned char* allowed,
     const i64* rooms, u32* qkv, u32* looked, u32* joined, u32* hidden, u32* thought,
     float* scores, float* part_best, int* part_where, float* part_mass, float* best, int* where, float* mass,
     int choose, int most_at) {
    extern __shared__ __align__(128) char memory[];
    __shared__ Shared s;
    const int p = blockIdx.x, t = threadIdx.x, warp = t / 32, lane = t % 32, copy = p % COPIES;
    if (t == 0) {
        for (int i = 0; i < 4; ++i) barrier(s.full + i, 1), barrier(s.empty + i, WARPS);
        for (int i = 0; i < SLOTS; ++i) barrier(s.score_full + i, 1), barrier(s.score_empty + i, WARPS / 2);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp == WARPS) {
        if (!lane) fetch_all(memory, s, layers, unembed, p);
        return;
    }
    const u32 bit = *turn & 1;
    const int at = (int)*at_;
    const i64 token = choose ? (i64)*where : *tokens;
    for (int i = t; i < 3 * L; i += THREADS) s.rooms[i] = rooms[i];
    for (int i = t; i < OWN && p * OWN + i < V; i += THREADS) s.allowed[i] = allowed[p * OWN + i];
    if (D % 32) s.h.clear(t);
    if (A % 32) s.heads_in.clear(t);
    if (F % 32) s.hidden.clear(t);
    float4 h[HELD];
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        int d = t + i * THREADS;
        if (d >= D / 4) break;
        uint2 e = embed[token * (D / 4) + d];
        h[i] = make_float4(low(e.x), high(e.x), low(e.y), high(e.y));
        if (PLACED) {
            e = place[(i64)at * (D / 4) + d];
            add(h[i], make_float4(low(e.x), high(e.x), low(e.y), high(e.y)));
        }
    }
    if (D % 32 || A % 32 || F % 32) together();
    Part o;  // heads are given to the last programs, which have the fewest rows
    const int part = PROGRAMS - 1 - p;
    o.head = part / SPLITS, o.split = part % SPLITS, o.group = o.head / (H / G);
    o.first = o.split * ((at + SPLITS - 1) / SPLITS), o.last = min(o.first + (at + SPLITS - 1) / SPLITS, at);
    // a warp tells a copy, and a lane of it a row
    auto line = [&](u32* told, int l, int rows) { return told + ((l * COPIES + warp) * PROGRAMS + p) * sectors(rows) + lane; };
    auto mine = [&](u32* told, int l, int rows) { return told + (l * COPIES + copy) * PROGRAMS * sectors(rows); };

#pragma unroll 1
    for (int l = 0; l < L; ++l) {
        if (l) join(h, mine(thought, l - 1, BACK), bit, t);
        spread(s, h, t, warp, lane);
        if (part < H * SPLITS) {
            o.keys = (const uint4*)s.rooms[3 * l] + o.group * s.rooms[3 * l + 2];
            o.values = (const uint4*)s.rooms[3 * l + 1] + o.group * s.rooms[3 * l + 2];
            o.ask(0, o.last);
        }
        wait(s.full, l);
        if (p * READ < N) {  // eq. 1
            float sum = product<READ, D>(s, memory, s.h, warp, lane);
            if (!warp && lane < READ && p * READ + lane < N) {
                float2 by = norm(s, READ_EPS, READ_RMS), end = ((const float2*)(memory + READ * padded(D) * 2))[lane];
                tell(qkv + (l * PROGRAMS + p) * sectors(READ) + lane, (sum - by.x * end.x) * by.y + end.y, bit);
            }
        }
        __syncwarp();
        if (!lane) arrive(s.empty);
        if (part < H * SPLITS)
            look(s, o, qkv + l * PROGRAMS * sectors(READ), looked + l * COPIES * SPLITS * H * HEAD, at, bit, t);
        for (int i = t; i < A / 4; i += THREADS)
            s.heads_in.put(i, hear_head(looked + (l * COPIES + copy) * SPLITS * H * HEAD, i, bit));
        together();
        wait(s.full + 1, l);
        if (p * BACK < D) {  // eq. 3
            const char* w = memory + OUT_AT;
            float sum = product<BACK, A>(s, w, s.heads_in, warp, lane);
            if (lane < BACK && p * BACK + lane < D)
                tell(line(joined, l, BACK), sum + ((const float*)(w + BACK * padded(A) * 2))[lane], bit);
        }
        __syncwarp();
        if (!lane) arrive(s.empty + 1);
        join(h, mine(joined, l, BACK), bit, t);
        spread(s, h, t, warp, lane);
        wait(s.full + 2, l);
        if (p * WIDEN < F) {  // eq. 4, its first half
            const char* w = memory + WIDEN_AT;
            float sum = product<WIDEN, D>(s, w, s.h, warp, lane);
            if (lane < WIDEN && p * WIDEN + lane < F) {
                float2 by = norm(s, WIDEN_EPS, WIDEN_RMS), end = ((const float2*)(w + WIDEN * padded(D) * 2))[lane];
                tell(line(hidden, l, WIDEN), active((sum - by.x * end.x) * by.y + end.y), bit);
            }
        }
        __syncwarp();
        if (!lane) arrive(s.empty + 2);
        {
            Heard<F, WIDEN> x(mine(hidden, l, WIDEN), bit, t);
#pragma unroll
            for (int i = 0; i < Heard<F, WIDEN>::COUNT; ++i)
                if (t + i * THREADS < F / 4) s.hidden.put(t + i * THREADS, x.of(i));
        }
        together();
        wait(s.full + 3, l);
        if (p * BACK < D) {  // and its second
            const char* w = memory + NARROW_AT;
            float sum = product<BACK, F>(s, w, s.hidden, warp, lane);
            if (lane < BACK && p * BACK + lane < D)
                tell(line(thought, l, BACK), sum + ((const float*)(w + BACK * padded(F) * 2))[lane], bit);
        }
        __syncwarp();
        if (!lane) arrive(s.empty + 3);
    }
    join(h, mine(thought, L - 1, BACK), bit, t);
    spread(s, h, t, warp, lane);
    // eq. 5: half of the warps have every second turn, and each of them eight rows of it
    float2 by = norm(s, SCORE_EPS, SCORE_RMS);
    Best found = {-ENDLESS, LEAST, 0, NONE};
#pragma unroll 1
    for (int c = warp / (WARPS / 2); c < TURNS; c += 2) {
        const char* w = memory + (c + TAKEN) % SLOTS * SCORE_BYTES;
        const float2* ends = (const float2*)(w + SCORE_ROWS * padded(D) * 2);
        const int first = warp % (WARPS / 2) * 8;
        wait(s.score_full + c % SLOTS, c / SLOTS);
        float2 y[1];
        products<1, D, Vector<D>::GROUPS_OF_32, 1>(y, w + first * padded(D) * 2, s.h, 0, lane);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            int row = first + 2 * lane + j, i = c * SCORE_ROWS + row, v = p * OWN + i;
            if (lane < 4 && i < OWN && v < V) {
                float sum = ((j ? y[0].y : y[0].x) - by.x * ends[row].x) * by.y + ends[row].y;
                scores[v] = sum;
                found.with(s.allowed[i] ? sum : -ENDLESS, s.allowed[i] ? v : NONE, sum, 1);
            }
        }
        __syncwarp();
        if (!lane) arrive(s.score_empty + c % SLOTS);
    }
    found.over_lanes();
    if (!lane) {
        s.best[warp] = make_float2(found.top, __int_as_float(found.stands));
        s.mass[warp] = make_float2(found.most, found.total);
    }
    together();
    if (warp) return;
    bool one = lane < WARPS;
    found = {one ? s.best[lane].x : -ENDLESS, one ? s.mass[lane].x : LEAST, one ? s.mass[lane].y : 0,
             one ? __float_as_int(s.best[lane].y) : NONE};
    found.over_lanes();
    u32 before = 0;
    if (!lane) {
        part_best[p] = found.top, part_where[p] = found.stands, part_mass[p] = found.most + __logf(found.total);
        __threadfence();
        before = atomicAdd(done, 1);
        __threadfence();
    }
    if (__shfl_sync(~0u, before, 0) != PROGRAMS - 1) return;
    // the last program, when everybody has read what stood there before
    if (choose && !lane) words[*slot] = token, log_p[*slot] = *best - *mass, *tokens = token;
    found = {-ENDLESS, LEAST, 0, NONE};
    for (int i = lane; i < PROGRAMS; i += 32)
        found.with(__ldcg(part_best + i), __ldcg(part_where + i), __ldcg(part_mass + i), 1);
    found.over_lanes();
    if (lane) return;
    *best = found.top, *where = found.stands == NONE ? 0 : found.stands, *mass = found.most + logf(found.total);
    *done = 0, *turn += 1, *slot += 1, *number += 1, *at_ = min(at + 1, most_at);
}
