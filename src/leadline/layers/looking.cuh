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
    int first, last;               // places
    uint4 key[KEYS], value[KEYS];  // those of the next turn
    float q[8], sum[8], most, total;

    __device__ __forceinline__ int place(int turn, int i) const {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        return first + ((turn * WARPS + warp) * KEYS + i) * GROUPS + lane / LANES;
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
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, sub = lane % LANES * 8;
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
        for (int turn = 0; first + (turn * WARPS + warp) * KEYS * GROUPS < last; ++turn) {
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

// what the warps of a block found, one number of it a thread
struct Heads {
    float sums[WARPS][K];
    float2 shares[WARPS];

    __device__ __forceinline__ void put(const Looking& o) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (lane < LANES)
#pragma unroll
            for (int i = 0; i < 8; ++i) sums[warp][lane * 8 + i] = o.sum[i];
        if (!lane) shares[warp] = make_float2(o.most, o.total);
    }
    __device__ __forceinline__ float3 of(int k) const {  // the sum, the largest score, and the sum of shares
        float most = LEAST, total = 0, y = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) most = fmaxf(most, shares[w].x);
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            float a = __expf(shares[w].x - most);
            total += a * shares[w].y, y += a * sums[w][k];
        }
        return make_float3(y, most, total);
    }
};
