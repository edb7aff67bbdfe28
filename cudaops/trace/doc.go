// Package trace reads profiler traces of GPU programs and computes which part of the time is spent in
// communication.
//
// # Inputs
//
// [Read] reads PyTorch profiler traces (Kineto, the Chrome trace format: an object with "traceEvents" or a
// bare array), plain or compressed with gzip or zstd, and SQLite exports of nsys. It streams the file and keeps only
// about 40 bytes per kernel in memory.
//
// # Times
//
// Times are integers in nanoseconds. Traces contain microseconds with up to three decimals. A float64
// cannot represent times since the epoch in nanoseconds, so the decimal text is converted without floats.
//
// # Kernels
//
// A kernel is a complete event whose category contains "kernel". Copies, memsets and annotations are not
// kernels. A kernel whose name matches a [Rule] is a collective, all others are compute. Busy time is the
// union of all kernel intervals of a device. Exposed communication is the part of it during which no
// compute kernel runs.
package trace
