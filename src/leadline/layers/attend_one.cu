// Attention of one new word a row on its room (`attend_one.py`): a block has one head of one row.

#include "looking.cuh"

struct Shared {
    float own[3 * K];
    Heads heads;
};

extern "C" __global__ void __launch_bounds__(WARPS * 32, WARPS > 4 ? 1 : 6)
attend_one(const uint4* q, const uint4* k, const uint4* v, uint4* keys, uint4* values, const i64* at_, u32* out, int H,
           int G, int q_row, int q_head, int k_row, int k_head, int v_row, int v_head, int row, int group) {
    __shared__ Shared s;
    const int b = blockIdx.x / H, h = blockIdx.x % H, g = h / (H / G), t = threadIdx.x;
    const i64 room = (i64)b * row + (i64)g * group;  // strides count eights of numbers
    Looking o;
    o.keys = keys + room, o.values = values + room;
    // written before this step began: asked for while the kernel before still runs, and before it is known how many
    o.ask(0, group / LANES);
    const int at = o.last = (int)at_[b];
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    if (t < 3 * LANES) {
        int part = t / LANES, i = t % LANES;
        const uint4* from = part == 0   ? q + (i64)b * q_row + (i64)h * q_head
                            : part == 1 ? k + (i64)b * k_row + (i64)g * k_head
                                        : v + (i64)b * v_row + (i64)g * v_head;
        uint4 x = from[i];
        float* to = s.own + t * 8;
        to[0] = low(x.x), to[1] = high(x.x), to[2] = low(x.y), to[3] = high(x.y);
        to[4] = low(x.z), to[5] = high(x.z), to[6] = low(x.w), to[7] = high(x.w);
        if (part && h % (H / G) == 0) (part == 1 ? keys : values)[room + (i64)at * LANES + i] = x;
    }
    __syncthreads();
    o.look(s.own, t < 32 ? s.own + K : 0, SCALE);
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");  // late: what comes next would take the registers that this needs
#endif
    s.heads.put(o);
    __syncthreads();
    for (int i = t; i - t % 32 < K / 2; i += WARPS * 32) {
        const float2 x = s.heads.of(i < K / 2 ? i : 0);
        if (i < K / 2) out[(i64)blockIdx.x * (K / 2) + i] = two(x.x, x.y);
    }
}
