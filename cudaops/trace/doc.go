// Package trace reads profiler traces of GPU programs and says what part of the
// time went into communication.
//
// # Inputs
//
// [Read] takes a PyTorch profiler trace (Kineto, the Chrome trace format: an
// object with "traceEvents" or a bare array), plain, gzip or zstd, and the CSV that
// "nsys stats --report cuda_gpu_trace --format csv" prints. It streams: a file
// is never in memory as a whole, only about 40 bytes a kernel are.
//
// # Times
//
// Times are integers in nanoseconds. A trace writes microseconds with up to
// three decimals; epoch times with nanoseconds do not fit into a float64, so
// the decimal text is converted without one.
//
// # Kernels
//
// A kernel is a complete event whose category contains "kernel". Copies,
// memsets and annotations are none. A kernel whose name matches a [Rule] is a
// collective; every other one is compute. Busy time is the union of all kernel
// intervals of a device, exposed communication is the part of it in which no
// compute kernel runs.
package trace
