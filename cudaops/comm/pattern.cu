// A known pattern to send and its check. Compiled at run time for the device.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Element types, as ncclDataType_t numbers them.
#define T_INT8 0
#define T_HALF 6
#define T_BF16 9

// pattern is the small integer that rank r holds at index i: 0 to 7, so that
// the sum over 8 ranks is exact in every type that is measured.
__device__ u32 pattern(u32 r, u64 i) {
  u32 h = (u32)(i ^ (i >> 32)) * 2654435761u;
  return ((h >> 15) + 3u * r + (u32)(i >> 20)) & 7u;
}

// bits of the small integer v (0 to 255) in a 16-bit float.
__device__ u16 float_bits(u32 v, int type) {
  u32 f = __float_as_uint((float)v);
  if (type == T_BF16) return (u16)(f >> 16);
  if (v == 0) return 0;
  return (u16)(((f >> 23) - 112u) << 10 | ((f >> 13) & 0x3ffu));
}

__device__ void put(void* p, u64 i, u32 v, int type) {
  if (type == T_INT8) ((u8*)p)[i] = (u8)v;
  else ((u16*)p)[i] = float_bits(v, type);
}

__device__ bool same(const void* p, u64 i, u32 v, int type) {
  if (type == T_INT8) return ((const u8*)p)[i] == (u8)v;
  return ((const u16*)p)[i] == float_bits(v, type);
}

// comm_fill writes the pattern of a rank.
extern "C" __global__ void comm_fill(void* p, u64 count, u32 rank, int type) {
  u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    put(p, i, pattern(rank, i), type);
}

// What the receive buffer must hold.
#define E_SUM 0      // the sum over all ranks, from index base on
#define E_GATHER 1   // the ranks' parts, each from its index 0 on
#define E_EXCHANGE 2 // the ranks' parts, each from its index base on
#define E_COPY 3     // what rank src sent

// comm_check counts the elements of p that are not as they must be, into
// out[0], and leaves the lowest such index in out[1] (set to ~0 before).
extern "C" __global__ void comm_check(const void* p, u64 count, int expect, u32 nranks, u32 src, u64 base, u64 part,
                                      int type, u64* out) {
  u64 step = (u64)gridDim.x * blockDim.x, wrong = 0, first = ~0ull;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    u32 v = 0;
    switch (expect) {
      case E_SUM:
        for (u32 r = 0; r < nranks; r++) v += pattern(r, base + i);
        break;
      case E_GATHER: v = pattern((u32)(i / part), i % part); break;
      case E_EXCHANGE: v = pattern((u32)(i / part), base + i % part); break;
      case E_COPY: v = pattern(src, i); break;
    }
    if (!same(p, i, v, type)) {
      wrong++;
      if (i < first) first = i;
    }
  }
  if (wrong) {
    atomicAdd(&out[0], wrong);
    atomicMin(&out[1], first);
  }
}
