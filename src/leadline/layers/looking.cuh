// One query on keys and values in bfloat16: softmax over the places that a block of WARPS warps has, a pass at a time.
// A lane has eight numbers of a key, LANES of them a key, and KEYS keys at once; the next ones are asked for meanwhile.

typedef unsigned int u32;
typedef long long i64;

constexpr int LANES = K / 8, GROUPS = 32 / LANES, KEYS = 4;
constexpr float LEAST = -1e30f;
#define ENDLESS __int_as_float(0x7f800000)

__device__ __forceinline__ float low(u32 w) { return __uint_as_float(w << 16); }  // of two bfloat16
__device__ __forceinline__ float high(u32 w) { return __uint_as_float(w & 0xffff0000u); }
__device__ __forceinline__ u32 two(float x, float y) {
    u32 w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(y), "f"(x));
    return w;
}

struct Looking {
    const uint4 *keys, *values;
    int last;                      // place
    uint4 key[KEYS], value[KEYS];  // those of the next turn
    float q[8], sum[8], most, total;

    __device__ __forceinline__ int place(int turn, int i) const {
        return ((turn * WARPS + threadIdx.x / 32) * KEYS + i) * GROUPS + threadIdx.x % 32 / LANES;
    }
    // for places below `end`, which may lie behind the last: what is there is not looked at
    __device__ __forceinline__ void ask(int turn, int end) {
#pragma unroll
        for (int i = 0; i < KEYS; ++i) {
            i64 at = (i64)place(turn, i) * LANES + threadIdx.x % LANES;
            if (place(turn, i) < end) key[i] = keys[at], value[i] = values[at];
        }
    }
    // with what was asked for; `own`, of one warp, is the query's own key and value (2 K), which is in no room yet
    __device__ __forceinline__ void look(const float* query, const float* own, float scale) {
        const int lane = threadIdx.x % 32, sub = lane % LANES * 8;
        most = LEAST, total = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) q[i] = query[sub + i] * scale, sum[i] = 0;
        if (own) {
            float y = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) y += q[i] * own[sub + i];
            for (int d = LANES / 2; d; d /= 2) y += __shfl_xor_sync(~0u, y, d);
            if (lane < LANES) {
                most = y, total = 1;
#pragma unroll
                for (int i = 0; i < 8; ++i) sum[i] = own[K + sub + i];
            }
        }
        for (int turn = 0; (turn * WARPS + threadIdx.x / 32) * KEYS * GROUPS < last; ++turn) {
            float y[KEYS], larger = most;
            uint4 v[KEYS];
#pragma unroll
            for (int i = 0; i < KEYS; ++i) {
                uint4 k = key[i];
                v[i] = value[i];
                y[i] = low(k.x) * q[0] + high(k.x) * q[1] + low(k.y) * q[2] + high(k.y) * q[3]
                     + low(k.z) * q[4] + high(k.z) * q[5] + low(k.w) * q[6] + high(k.w) * q[7];
            }
            ask(turn + 1, last);
#pragma unroll
            for (int d = LANES / 2; d; d /= 2)
#pragma unroll
                for (int i = 0; i < KEYS; ++i) y[i] += __shfl_xor_sync(~0u, y[i], d);
#pragma unroll
            for (int i = 0; i < KEYS; ++i) {
                if (place(turn, i) >= last) y[i] = -ENDLESS, v[i] = make_uint4(0, 0, 0, 0);
                larger = fmaxf(larger, y[i]);
            }
            float less = __expf(most - larger);
            most = larger, total *= less;
#pragma unroll
            for (int i = 0; i < 8; ++i) sum[i] *= less;
#pragma unroll
            for (int i = 0; i < KEYS; ++i) {
                float share = __expf(y[i] - larger);
                total += share;
                sum[0] = fmaf(share, low(v[i].x), sum[0]), sum[1] = fmaf(share, high(v[i].x), sum[1]);
                sum[2] = fmaf(share, low(v[i].y), sum[2]), sum[3] = fmaf(share, high(v[i].y), sum[3]);
                sum[4] = fmaf(share, low(v[i].z), sum[4]), sum[5] = fmaf(share, high(v[i].z), sum[5]);
                sum[6] = fmaf(share, low(v[i].w), sum[6]), sum[7] = fmaf(share, high(v[i].w), sum[7]);
            }
        }
#pragma unroll
        for (int d = LANES; d < 32; d *= 2) {
            float other = __shfl_xor_sync(~0u, most, d), larger = fmaxf(most, other);
            float a = __expf(most - larger), b = __expf(other - larger);
            most = larger, total = total * a + __shfl_xor_sync(~0u, total, d) * b;
#pragma unroll
            for (int i = 0; i < 8; ++i) sum[i] = sum[i] * a + __shfl_xor_sync(~0u, sum[i], d) * b;
        }
    }
};

// what the warps of a block found
struct Heads {
    alignas(8) float sums[WARPS][K];
    float2 shares[WARPS];

    __device__ __forceinline__ void put(const Looking& o) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (lane < LANES)
#pragma unroll
            for (int i = 0; i < 8; ++i) sums[warp][lane * 8 + i] = o.sum[i];
        if (!lane) shares[warp] = make_float2(o.most, o.total);
    }
    // numbers 2 i and 2 i + 1 of the whole; all lanes of a warp must ask
    __device__ __forceinline__ float2 of(int i) const {
        const int lane = threadIdx.x % 32;
        const float2 own = lane < WARPS ? shares[lane] : make_float2(LEAST, 0);
        float most = own.x, x = 0, y = 0;
#pragma unroll
        for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
        float share = __expf(own.x - most), total = share * own.y;
#pragma unroll
        for (int d = 16; d; d /= 2) total += __shfl_xor_sync(~0u, total, d);
        share = __fdividef(share, total);
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            const float a = __shfl_sync(~0u, share, w);
            const float2 z = reinterpret_cast<const float2*>(sums[w])[i];
            x = fmaf(a, z.x, x), y = fmaf(a, z.y, y);
        }
        return make_float2(x, y);
    }
};
