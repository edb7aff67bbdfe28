// Package kernels holds the CUDA sources that are part of this program.
package kernels

import _ "embed"

//go:generate go test -run TestCorePTX -update

// Core is the source of the kernels that every measurement needs.
//
//go:embed core.cu
var Core string

// CorePTX is Core, compiled: its first lines say by what and from which source.
// It is PTX for compute capability 7.0 and
// newer, in a PTX version that drivers of CUDA 12.1 and newer know.
//
//go:embed core.ptx
var CorePTX []byte

// Elementwise is the source of the kernels of the op elementwise; it is compiled
// with -DDTYPE=1 (bfloat16) or 2 (float16) and -DFP8=1 where the device has it.
//
//go:embed elementwise.cu
var Elementwise string
