// A product of a matrix with one vector (`one_row.py`). A block has BANDS x R rows of the matrix: warps stand side by side
// over its columns, PARTS of them, 256 columns of R rows at a time. Weights are in registers before the vector is there.

typedef unsigned int u32;
typedef long long i64;

constexpr int TURNS = (C + 256 * PARTS - 1) / (256 * PARTS), ROWS = BANDS * R, THREADS = 32 * PARTS * BANDS;
constexpr int SUMS = R + (NORM ? 2 : 0), KEPT = SUMS > 8 ? 16 : SUMS > 4 ? 8 : SUMS > 2 ? 4 : 2;

constexpr float EACH = 1.0f / C;  // a division would take longer than all the rest behind the sums

#ifdef X_HALF
typedef uint4 Eight;
#else
struct Eight { float4 first, second; };
#endif

__device__ __forceinline__ float low(u32 w) { return __uint_as_float(w << 16); }  // of two bfloat16
__device__ __forceinline__ float high(u32 w) { return __uint_as_float(w & 0xffff0000u); }

__device__ __forceinline__ void spread(float* x, uint4 w) {
    x[0] = low(w.x), x[1] = high(w.x), x[2] = low(w.y), x[3] = high(w.y);
    x[4] = low(w.z), x[5] = high(w.z), x[6] = low(w.w), x[7] = high(w.w);
}
#ifndef X_HALF
__device__ __forceinline__ void spread(float* x, Eight w) {
    x[0] = w.first.x, x[1] = w.first.y, x[2] = w.first.z, x[3] = w.first.w;
    x[4] = w.second.x, x[5] = w.second.y, x[6] = w.second.z, x[7] = w.second.w;
}
#endif

__device__ __forceinline__ float activated(float x) {
#if ACTIVATION == 1  // GELU by tanh
    return __fdividef(x, 1 + __expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 2
    return 0.5f * x * (1 + erff(x * 0.7071067811865476f));
#elif ACTIVATION == 3
    return fmaxf(x, 0);
#elif ACTIVATION == 4
    return __fdividef(x, 1 + __expf(-x));
#else
    return x;
#endif
}

__device__ __forceinline__ void put(unsigned short* y, float x, float) {
    asm("{ .reg .b16 w; cvt.rn.bf16.f32 w, %1; st.global.b16 [%0], w; }" ::"l"(y), "f"(x) : "memory");
}
__device__ __forceinline__ void put(float* y, float x, float before) { *y = before + x; }

#ifdef Y_HALF
typedef unsigned short Y;
#else
typedef float Y;
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1152 / THREADS)
product(const Eight* x, const uint4* weight, const uint4* gain, const float2* ends, Y* y, int N) {
    __shared__ float sums[BANDS][PARTS][KEPT];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, part = warp % PARTS, band = warp / PARTS;
    const int first = (blockIdx.x * BANDS + band) * R, own = blockIdx.x * ROWS + t;
    const uint4 none = make_uint4(0, 0, 0, 0);
    uint4 w[TURNS][R];
    uint4 g[NORM ? TURNS : 1];
    float2 end = make_float2(0, 0);
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int c = (turn * PARTS + part) * 32 + lane;  // counts eights of columns
#pragma unroll
        for (int i = 0; i < R; ++i) {
            const bool there = c < C / 8 && first + i < N;
            w[turn][i] = there ? __ldcs(weight + (i64)(first + i) * (C / 8) + c) : none;
        }
        if (NORM) g[turn] = c < C / 8 ? gain[c] : none;
    }
    if (t < ROWS && own < N) end = ends[own];
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // not before this kernel has asked for its weights
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    float before = 0;
#ifdef ADD
    if (t < ROWS && own < N) before = y[own];
#endif
    float sum[KEPT] = {};
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int c = (turn * PARTS + part) * 32 + lane;
        float v[8] = {};
        if (c < C / 8) spread(v, x[c]);
        if (NORM) {
            float gains[8];
            spread(gains, g[turn]);
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                sum[SUMS - 2] += v[k], sum[SUMS - 1] += v[k] * v[k];
                v[k] *= gains[k];
            }
        }
#pragma unroll
        for (int i = 0; i < R; ++i) {
            float a[8];
            spread(a, w[turn][i]);
#pragma unroll
            for (int k = 0; k < 8; ++k) sum[i] = fmaf(a[k], v[k], sum[i]);
        }
    }
    // half of the lanes keep half of the sums, until a lane has one, and then lanes add what is the same
    int d = 16;
#pragma unroll
    for (int m = KEPT / 2; m; m /= 2, d /= 2)
#pragma unroll
        for (int i = 0; i < m; ++i) {
            const float keep = lane & d ? sum[i + m] : sum[i], give = lane & d ? sum[i] : sum[i + m];
            sum[i] = keep + __shfl_xor_sync(~0u, give, d);
        }
    for (; d; d /= 2) sum[0] += __shfl_xor_sync(~0u, sum[0], d);
    if (lane % (32 / KEPT) == 0) sums[band][part][lane / (32 / KEPT)] = sum[0];
    __syncthreads();
    if (t >= ROWS || own >= N) return;
    float z = 0, s1 = 0, s2 = 0;
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
        z += sums[t / R][p][t % R];
        if (NORM) s1 += sums[t / R][p][SUMS - 2], s2 += sums[t / R][p][SUMS - 1];
    }
    if (NORM) {
        const float mean = NORM == 1 ? s1 * EACH : 0;
        z = (z - mean * end.x) * rsqrtf(fmaxf(s2 * EACH - mean * mean, 0) + EPS);
    }
    put(y + own, activated(z + end.y), before);
}
