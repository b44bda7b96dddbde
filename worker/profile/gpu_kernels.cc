#include "worker/profile/gpu_kernels.h"

namespace kiln::worker::cuda {

const char kGpuKernels[] = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry kiln_nothing()
{
  ret;
}

.visible .entry kiln_canary(.param .u32 rounds, .param .u64 out, .param .u64 clock)
{
  .reg .pred %p;
  .reg .b32 %count, %i, %thread;
  .reg .f32 %a, %b, %c, %d, %half;
  .reg .b32 %who;
  .reg .b64 %to, %at, %cycles, %nanos, %cycles_then, %nanos_then;

  mov.u64 %cycles_then, %clock64;
  mov.u64 %nanos_then, %globaltimer;
  ld.param.u32 %count, [rounds];
  ld.param.u64 %to, [out];
  cvta.to.global.u64 %to, %to;
  mov.u32 %thread, %tid.x;
  mov.f32 %half, 0f3F000000;
  cvt.rn.f32.u32 %a, %thread;
  add.f32 %b, %a, %half;
  add.f32 %c, %b, %half;
  add.f32 %d, %c, %half;
  mov.u32 %i, 0;
Round:
  fma.rn.f32 %a, %a, %half, %half;
  fma.rn.f32 %b, %b, %half, %half;
  fma.rn.f32 %c, %c, %half, %half;
  fma.rn.f32 %d, %d, %half, %half;
  fma.rn.f32 %a, %a, %half, %half;
  fma.rn.f32 %b, %b, %half, %half;
  fma.rn.f32 %c, %c, %half, %half;
  fma.rn.f32 %d, %d, %half, %half;
  add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, %count;
  @%p bra Round;
  add.f32 %a, %a, %b;
  add.f32 %c, %c, %d;
  add.f32 %a, %a, %c;
  setp.lt.f32 %p, %a, %half;
  @%p st.global.f32 [%to], %a;
  mov.u64 %cycles, %clock64;
  mov.u64 %nanos, %globaltimer;
  mov.u32 %who, %ctaid.x;
  or.b32 %who, %who, %thread;
  setp.ne.u32 %p, %who, 0;
  @%p bra End;
  ld.param.u64 %at, [clock];
  cvta.to.global.u64 %at, %at;
  sub.u64 %cycles, %cycles, %cycles_then;
  sub.u64 %nanos, %nanos, %nanos_then;
  red.global.add.u64 [%at], %cycles;
  red.global.add.u64 [%at+8], %nanos;
End:
  ret;
}

.visible .entry kiln_reading(.param .u64 from, .param .u64 pairs, .param .u64 out,
                             .param .u64 clock)
{
  .reg .pred %p;
  .reg .b32 %block, %blocks, %width, %thread, %sum;
  .reg .b32 %a<4>, %b<4>, %c<4>, %d<4>;
  .reg .b32 %who;
  .reg .b64 %base, %count, %to, %i, %step, %last, %at, %stride;
  .reg .b64 %cycles, %nanos, %cycles_then, %nanos_then;

  mov.u64 %cycles_then, %clock64;
  mov.u64 %nanos_then, %globaltimer;
  ld.param.u64 %base, [from];
  cvta.to.global.u64 %base, %base;
  ld.param.u64 %count, [pairs];
  ld.param.u64 %to, [out];
  cvta.to.global.u64 %to, %to;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %width, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %sum, 0;
  cvt.u64.u32 %i, %thread;
  mul.wide.u32 %step, %block, %width;
  add.u64 %i, %i, %step;
  mul.wide.u32 %step, %blocks, %width;
  shl.b64 %stride, %step, 4;
Four:
  mul.lo.u64 %last, %step, 3;
  add.u64 %last, %last, %i;
  setp.ge.u64 %p, %last, %count;
  @%p bra One;
  shl.b64 %at, %i, 4;
  add.u64 %at, %base, %at;
  ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%at];
  add.u64 %at, %at, %stride;
  ld.global.v4.u32 {%b0, %b1, %b2, %b3}, [%at];
  add.u64 %at, %at, %stride;
  ld.global.v4.u32 {%c0, %c1, %c2, %c3}, [%at];
  add.u64 %at, %at, %stride;
  ld.global.v4.u32 {%d0, %d1, %d2, %d3}, [%at];
  xor.b32 %a0, %a0, %a1;
  xor.b32 %a2, %a2, %a3;
  xor.b32 %b0, %b0, %b1;
  xor.b32 %b2, %b2, %b3;
  xor.b32 %c0, %c0, %c1;
  xor.b32 %c2, %c2, %c3;
  xor.b32 %d0, %d0, %d1;
  xor.b32 %d2, %d2, %d3;
  xor.b32 %a0, %a0, %a2;
  xor.b32 %b0, %b0, %b2;
  xor.b32 %c0, %c0, %c2;
  xor.b32 %d0, %d0, %d2;
  xor.b32 %a0, %a0, %b0;
  xor.b32 %c0, %c0, %d0;
  add.u32 %sum, %sum, %a0;
  add.u32 %sum, %sum, %c0;
  add.u64 %i, %last, %step;
  bra Four;
One:
  setp.ge.u64 %p, %i, %count;
  @%p bra Done;
  shl.b64 %at, %i, 4;
  add.u64 %at, %base, %at;
  ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%at];
  xor.b32 %a0, %a0, %a1;
  xor.b32 %a2, %a2, %a3;
  xor.b32 %a0, %a0, %a2;
  add.u32 %sum, %sum, %a0;
  add.u64 %i, %i, %step;
  bra One;
Done:
  setp.eq.u32 %p, %sum, 0x9e3779b9;
  @%p st.global.u32 [%to], %sum;
  mov.u64 %cycles, %clock64;
  mov.u64 %nanos, %globaltimer;
  mov.u32 %who, %ctaid.x;
  or.b32 %who, %who, %thread;
  setp.ne.u32 %p, %who, 0;
  @%p bra End;
  ld.param.u64 %at, [clock];
  cvta.to.global.u64 %at, %at;
  sub.u64 %cycles, %cycles, %cycles_then;
  sub.u64 %nanos, %nanos, %nanos_then;
  red.global.add.u64 [%at], %cycles;
  red.global.add.u64 [%at+8], %nanos;
End:
  ret;
}

.visible .entry kiln_digest(.param .u64 from, .param .u64 pairs, .param .u64 sum)
{
  .reg .pred %p;
  .reg .b32 %block, %blocks, %width, %thread;
  .reg .b64 %base, %count, %out, %i, %step, %at, %place, %a, %b, %high, %total, %local;
  .shared .align 8 .b64 partial;

  ld.param.u64 %base, [from];
  cvta.to.global.u64 %base, %base;
  ld.param.u64 %count, [pairs];
  ld.param.u64 %out, [sum];
  cvta.to.global.u64 %out, %out;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %width, %ntid.x;
  mov.u32 %thread, %tid.x;
  setp.ne.u32 %p, %thread, 0;
  mov.u64 %total, 0;
  @!%p st.shared.u64 [partial], %total;
  bar.sync 0;
  cvt.u64.u32 %i, %thread;
  mul.wide.u32 %step, %block, %width;
  add.u64 %i, %i, %step;
  mul.wide.u32 %step, %blocks, %width;
Next:
  setp.ge.u64 %p, %i, %count;
  @%p bra Done;
  shl.b64 %at, %i, 4;
  mul.lo.u64 %place, %at, 0x9e3779b97f4a7c15;
  add.u64 %at, %base, %at;
  ld.global.v2.u64 {%a, %b}, [%at];
  xor.b64 %a, %a, %place;
  mul.lo.u64 %a, %a, 0x9fb21c651e98df25;
  shr.u64 %high, %a, 32;
  xor.b64 %a, %a, %high;
  mul.lo.u64 %a, %a, 0xd6e8feb86659fd93;
  shr.u64 %high, %a, 29;
  xor.b64 %a, %a, %high;
  add.u64 %total, %total, %a;
  not.b64 %place, %place;
  xor.b64 %b, %b, %place;
  mul.lo.u64 %b, %b, 0x9fb21c651e98df25;
  shr.u64 %high, %b, 32;
  xor.b64 %b, %b, %high;
  mul.lo.u64 %b, %b, 0xd6e8feb86659fd93;
  shr.u64 %high, %b, 29;
  xor.b64 %b, %b, %high;
  add.u64 %total, %total, %b;
  add.u64 %i, %i, %step;
  bra Next;
Done:
  red.shared.add.u64 [partial], %total;
  bar.sync 0;
  setp.ne.u32 %p, %thread, 0;
  @%p bra End;
  ld.shared.u64 %local, [partial];
  red.global.add.u64 [%out], %local;
End:
  ret;
}

.visible .entry kiln_gather(.param .u64 first, .param .u64 where, .param .u64 elements,
                            .param .u32 bytes, .param .u64 into)
{
  .reg .pred %p, %one, %two, %four;
  .reg .b16 %word16;
  .reg .b32 %block, %blocks, %threads, %thread, %width, %word32;
  .reg .b64 %from, %places, %count, %to, %i, %step, %at, %end, %wide, %word64;

  ld.param.u64 %from, [first];
  cvta.to.global.u64 %from, %from;
  ld.param.u64 %places, [where];
  cvta.to.global.u64 %places, %places;
  ld.param.u64 %count, [elements];
  ld.param.u32 %width, [bytes];
  cvt.u64.u32 %wide, %width;
  ld.param.u64 %to, [into];
  cvta.to.global.u64 %to, %to;
  setp.eq.u32 %one, %width, 1;
  setp.eq.u32 %two, %width, 2;
  setp.eq.u32 %four, %width, 4;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  cvt.u64.u32 %i, %thread;
  mul.wide.u32 %step, %block, %threads;
  add.u64 %i, %i, %step;
  mul.wide.u32 %step, %blocks, %threads;
Next:
  setp.ge.u64 %p, %i, %count;
  @%p bra Done;
  shl.b64 %at, %i, 3;
  add.u64 %at, %places, %at;
  ld.global.u64 %at, [%at];
  mad.lo.u64 %at, %at, %wide, %from;
  mad.lo.u64 %end, %i, %wide, %to;
  add.u64 %i, %i, %step;
  @%one bra One;
  @%two bra Two;
  @%four bra Four;
  ld.global.u64 %word64, [%at];
  st.global.u64 [%end], %word64;
  bra Next;
One:
  ld.global.u8 %word16, [%at];
  st.global.u8 [%end], %word16;
  bra Next;
Two:
  ld.global.u16 %word16, [%at];
  st.global.u16 [%end], %word16;
  bra Next;
Four:
  ld.global.u32 %word32, [%at];
  st.global.u32 [%end], %word32;
  bra Next;
Done:
  ret;
}

.visible .entry kiln_apart(.param .u64 first, .param .u64 second, .param .u64 elements,
                           .param .u32 type, .param .f32 relative, .param .f32 absolute,
                           .param .u64 found)
{
  .reg .pred %p, %near, %wide, %half;
  .reg .b16 %x16, %y16;
  .reg .b32 %block, %blocks, %width, %thread, %kind, %word;
  .reg .f32 %x, %y, %rtol, %atol, %apart, %size, %limit;
  .reg .b64 %a, %b, %count, %out, %i, %step, %at, %from, %total;

  ld.param.u64 %a, [first];
  cvta.to.global.u64 %a, %a;
  ld.param.u64 %b, [second];
  cvta.to.global.u64 %b, %b;
  ld.param.u64 %count, [elements];
  ld.param.u32 %kind, [type];
  ld.param.f32 %rtol, [relative];
  ld.param.f32 %atol, [absolute];
  ld.param.u64 %out, [found];
  cvta.to.global.u64 %out, %out;
  setp.eq.u32 %wide, %kind, 0;
  setp.eq.u32 %half, %kind, 2;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %width, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u64 %total, 0;
  cvt.u64.u32 %i, %thread;
  mul.wide.u32 %step, %block, %width;
  add.u64 %i, %i, %step;
  mul.wide.u32 %step, %blocks, %width;
Next:
  setp.ge.u64 %p, %i, %count;
  @%p bra Done;
  @%wide bra Wide;
  shl.b64 %at, %i, 1;
  add.u64 %from, %a, %at;
  ld.global.b16 %x16, [%from];
  add.u64 %from, %b, %at;
  ld.global.b16 %y16, [%from];
  @%half bra Half;
  cvt.u32.u16 %word, %x16;
  shl.b32 %word, %word, 16;
  mov.b32 %x, %word;
  cvt.u32.u16 %word, %y16;
  shl.b32 %word, %word, 16;
  mov.b32 %y, %word;
  bra Compare;
Half:
  cvt.f32.f16 %x, %x16;
  cvt.f32.f16 %y, %y16;
  bra Compare;
Wide:
  shl.b64 %at, %i, 2;
  add.u64 %from, %a, %at;
  ld.global.f32 %x, [%from];
  add.u64 %from, %b, %at;
  ld.global.f32 %y, [%from];
Compare:
  sub.rn.f32 %apart, %x, %y;
  abs.f32 %apart, %apart;
  abs.f32 %size, %y;
  fma.rn.f32 %limit, %rtol, %size, %atol;
  setp.lt.f32 %p, %size, 0f7F800000;
  abs.f32 %x, %x;
  setp.lt.and.f32 %p, %x, 0f7F800000, %p;
  setp.le.and.f32 %near, %apart, %limit, %p;
  @!%near add.u64 %total, %total, 1;
  add.u64 %i, %i, %step;
  bra Next;
Done:
  setp.eq.u64 %p, %total, 0;
  @!%p red.global.add.u64 [%out], %total;
  ret;
}
)";

}  // namespace kiln::worker::cuda
