package ops

import _ "embed"

//go:generate go test -run TestCorePTX -update

// coreSource contains the kernels that every measurement needs.
//
//go:embed kernels/core.cu
var coreSource string

// corePTX is coreSource, compiled for compute capability 7.0 and newer, in a PTX version that drivers of
// CUDA 12.1 and newer accept. Its first lines name the compiler and the digest of the source.
//
//go:embed kernels/core.ptx
var corePTX []byte

// elementwiseSource contains the kernels of the op elementwise. It is compiled with -DDTYPE=1 (bfloat16) or
// 2 (float16), and with -DFP8=1 if the device supports FP8.
//
//go:embed kernels/elementwise.cu
var elementwiseSource string
