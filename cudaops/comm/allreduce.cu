// Two all-reduce kernels over peer memory. Compiled at run time for the device.

typedef unsigned int u32;
typedef unsigned long long u64;

// Element types, as ncclDataType_t numbers them.
#define T_HALF 6
#define T_BF16 9

#define MAX_RANKS 8
#define MAX_BLOCKS 256

// Every rank owns one of these, readable and writable by its peers. A flag has
// one writer: flag[phase][block][rank] is set by that rank's block to the
// number of the call. epoch[block] is the owner's own count of calls; it lives
// on the device because a replayed graph repeats its arguments.
struct Signals {
  u32 flag[2][MAX_BLOCKS][MAX_RANKS];
  u32 epoch[MAX_BLOCKS];
  u32 failed;
};

struct Team {
  Signals* signals[MAX_RANKS];
  uint4* staging[MAX_RANKS];
  uint4* recv[MAX_RANKS];
};

__device__ void set_flag(u32* at, u32 v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}

__device__ u32 get_flag(const u32* at) {
  u32 v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}

__device__ u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// meet tells the peers' blocks of the same number that this block has written
// what they wait for, and waits for them. A peer that does not come within the
// limit is reported in failed, and the kernel goes on to its end: a kernel that
// never ends would cost the whole context.
__device__ void meet(const Team& t, int phase, u32 me, u32 nranks, u32 epoch, u64 limit) {
  __syncthreads();
  if (threadIdx.x < nranks && threadIdx.x != me) {
    u32 peer = threadIdx.x;
    set_flag(&t.signals[peer]->flag[phase][blockIdx.x][me], epoch);
    const u32* mine = &t.signals[me]->flag[phase][blockIdx.x][peer];
    u64 began = 0;
    for (u32 spins = 1; (int)(get_flag(mine) - epoch) < 0; spins++) {
      if ((spins & 1023u) == 0) {
        u64 now = nanoseconds();
        if (began == 0) began = now;
        else if (now - began > limit) {
          t.signals[me]->failed = epoch;
          break;
        }
      }
    }
  }
  __syncthreads();
}

__device__ float low(u32 w, int type) {
  if (type == T_BF16) return __uint_as_float(w << 16);
  float f;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(f) : "r"(w));
  return f;
}

__device__ float high(u32 w, int type) {
  if (type == T_BF16) return __uint_as_float(w & 0xffff0000u);
  float f;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(f) : "r"(w));
  return f;
}

__device__ u32 pair(float l, float h, int type) {
  u32 w;
  if (type == T_BF16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(h), "f"(l));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(h), "f"(l));
  return w;
}

template <int type> struct Sum {
  float s[8];
  __device__ void set(uint4 v) {
    s[0] = low(v.x, type); s[1] = high(v.x, type); s[2] = low(v.y, type); s[3] = high(v.y, type);
    s[4] = low(v.z, type); s[5] = high(v.z, type); s[6] = low(v.w, type); s[7] = high(v.w, type);
  }
  __device__ void add(uint4 v) {
    s[0] += low(v.x, type); s[1] += high(v.x, type); s[2] += low(v.y, type); s[3] += high(v.y, type);
    s[4] += low(v.z, type); s[5] += high(v.z, type); s[6] += low(v.w, type); s[7] += high(v.w, type);
  }
  __device__ uint4 get() const {
    return make_uint4(pair(s[0], s[1], type), pair(s[2], s[3], type), pair(s[4], s[5], type), pair(s[6], s[7], type));
  }
};

// one_shot: every rank sends its whole message to every peer and sums what it
// received. One meeting: staging holds two messages per rank, used in turn, and
// a rank that is two calls ahead of a peer cannot exist.
template <int type, int nranks>
__device__ void one_shot(const uint4* send, uint4* recv, u64 words, u64 slot, u32 me, const Team& t, u64 limit) {
  Signals* own = t.signals[me];
  u32 epoch = own->epoch[blockIdx.x] + 1;
  u64 lo = words * blockIdx.x / gridDim.x, hi = words * (blockIdx.x + 1) / gridDim.x;
  u64 turn = (epoch & 1) * slot * nranks;
  if (lo < hi) {
    for (u64 i = lo + threadIdx.x; i < hi; i += blockDim.x) {
      uint4 v = send[i];
#pragma unroll
      for (int k = 1; k < nranks; k++) {
        u32 peer = (me + k) % nranks;
        t.staging[peer][turn + me * slot + i] = v;
      }
    }
    meet(t, 0, me, nranks, epoch, limit);
    for (u64 i = lo + threadIdx.x; i < hi; i += blockDim.x) {
      // All ranks add in the order of the ranks, so that all get the same bits.
      uint4 v[nranks];
#pragma unroll
      for (int r = 0; r < nranks; r++) v[r] = r == me ? send[i] : __ldcv(&t.staging[me][turn + r * slot + i]);
      Sum<type> s;
      s.set(v[0]);
#pragma unroll
      for (int r = 1; r < nranks; r++) s.add(v[r]);
      recv[i] = s.get();
    }
  }
  if (threadIdx.x == 0) own->epoch[blockIdx.x] = epoch;
}

// two_shot: rank r sums slice r, which its peers send to it, and sends the sum
// to every peer. The second meeting also says that staging was read, so one
// message of it is enough.
template <int type, int nranks>
__device__ void two_shot(const uint4* send, uint4* recv, u64 words, u32 me, const Team& t, u64 limit) {
  Signals* own = t.signals[me];
  u32 epoch = own->epoch[blockIdx.x] + 1;
  u64 slice = words / nranks;
  u64 lo = slice * blockIdx.x / gridDim.x, hi = slice * (blockIdx.x + 1) / gridDim.x;
  if (lo < hi) {
    for (u64 i = lo + threadIdx.x; i < hi; i += blockDim.x) {
      uint4 v[nranks];
#pragma unroll
      for (int k = 1; k < nranks; k++) v[k] = send[(u64)((me + k) % nranks) * slice + i];
#pragma unroll
      for (int k = 1; k < nranks; k++) t.staging[(me + k) % nranks][me * slice + i] = v[k];
    }
    meet(t, 0, me, nranks, epoch, limit);
    for (u64 i = lo + threadIdx.x; i < hi; i += blockDim.x) {
      uint4 v[nranks];
#pragma unroll
      for (int r = 0; r < nranks; r++) v[r] = r == me ? send[me * slice + i] : __ldcv(&t.staging[me][r * slice + i]);
      Sum<type> s;
      s.set(v[0]);
#pragma unroll
      for (int r = 1; r < nranks; r++) s.add(v[r]);
      uint4 sum = s.get();
#pragma unroll
      for (int k = 0; k < nranks; k++) t.recv[(me + k) % nranks][me * slice + i] = sum;
    }
    meet(t, 1, me, nranks, epoch, limit);
  }
  if (threadIdx.x == 0) own->epoch[blockIdx.x] = epoch;
}

// The team comes last: its words are the last arguments of the launch. It stays
// in the constant bank, where it may be indexed.
#define KERNELS(NAME, TYPE, N)                                                                                   \
  extern "C" __global__ void __launch_bounds__(512) comm_one_shot_##NAME##_##N(                                  \
      const uint4* send, uint4* recv, u64 words, u64 slot, u32 me, u64 limit, const __grid_constant__ Team t) {  \
    one_shot<TYPE, N>(send, recv, words, slot, me, t, limit);                                                    \
  }                                                                                                              \
  extern "C" __global__ void __launch_bounds__(512) comm_two_shot_##NAME##_##N(                                  \
      const uint4* send, uint4* recv, u64 words, u64 slot, u32 me, u64 limit, const __grid_constant__ Team t) {  \
    two_shot<TYPE, N>(send, recv, words, me, t, limit);                                                          \
  }

KERNELS(half, T_HALF, 2)
KERNELS(half, T_HALF, 4)
KERNELS(half, T_HALF, 8)
KERNELS(bfloat16, T_BF16, 2)
KERNELS(bfloat16, T_BF16, 4)
KERNELS(bfloat16, T_BF16, 8)
