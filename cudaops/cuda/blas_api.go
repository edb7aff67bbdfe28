package cuda

import (
	"fmt"
	"strings"
)

// MatrixType is a cudaDataType.
type MatrixType int32

// Element types.
const (
	F32  MatrixType = 0
	F16  MatrixType = 2
	I8   MatrixType = 3
	I32  MatrixType = 10
	BF16 MatrixType = 14
	E4M3 MatrixType = 28
)

// matrixTypes are the names of the types, and the sizes of an element in bytes.
var matrixTypes = [...]struct {
	name string
	size int64
}{F32: {"f32", 4}, F16: {"f16", 2}, I8: {"i8", 1}, I32: {"i32", 4}, BF16: {"bf16", 2}, E4M3: {"e4m3", 1}}

// Size returns the size of an element in bytes.
func (t MatrixType) Size() int64 { return matrixTypes[t].size }

func (t MatrixType) String() string { return matrixTypes[t].name }

// ScaleMode is the layout of the scale factors of an operand.
type ScaleMode int32

// Scale modes: one factor per tensor, per 128 elements along k, or per 128 x 128 block. All factors are
// float32.
const (
	ScaleTensor   ScaleMode = 0
	ScaleVec128   ScaleMode = 4
	ScaleBlock128 ScaleMode = 5
)

// MatmulProblem is D = A^T B, where D is M x N and K is the inner dimension, repeated Batch times with
// strides in elements.
type MatmulProblem struct {
	M, N, K       int64
	A, B, D       MatrixType
	LDA, LDB, LDD int64
	Batch         int
	StrideA       int64
	StrideB       int64
	StrideD       int64

	// Scaled enables scale factors of the given modes, for fp8.
	Scaled         bool
	ScaleA, ScaleB ScaleMode
	FastAccumulate bool

	// Alpha is a factor for the product of floating-point operands. 0 means 1.
	Alpha float32
}

// Workspace is the workspace of an algorithm in bytes, as frameworks give it on this class of GPU.
const Workspace = 32 << 20

// RowMajorLinear returns y[m,n] = x[m,k] W[n,k]^T as a column-major problem: W is operand A (transposed), x
// is B and y is D.
func RowMajorLinear(m, n, k int64, in, out MatrixType) MatmulProblem {
	return MatmulProblem{
		M: n, N: m, K: k,
		A: in, B: in, D: out,
		LDA: k, LDB: k, LDD: n, Batch: 1,
	}
}

// Extents returns the number of elements from the first to the last element of each matrix, including all
// batches.
func (p MatmulProblem) Extents() (a, b, d int64) {
	extent := func(rows, cols, ld, stride int64) int64 {
		return (cols-1)*ld + rows + int64(max(p.Batch, 1)-1)*stride
	}

	return extent(p.K, p.M, p.LDA, p.StrideA), extent(p.K, p.N, p.LDB, p.StrideB), extent(p.M, p.N, p.LDD, p.StrideD)
}

// Operands are the device addresses of one call.
type Operands struct {
	A, B, D        Ptr
	ScaleA, ScaleB Ptr // for Problem.Scaled
	Workspace      Ptr
}

// Algo is the configuration of an algorithm as reported by the library. Numbers are the library's
// enumerations.
type Algo struct {
	ID, Tile, SplitK, Reduction, Swizzle, Custom, Stages uint32
	Inner, Cluster                                       uint16
	WorkspaceBytes                                       int64
	Waves                                                float32
	// Default is true if the heuristic returned no algorithm and the library selects one itself.
	Default bool
}

// String returns the configuration as text. It is equal for equal algorithms.
func (a Algo) String() string {
	if a.Default {
		return "default"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "id=%d tile=%d stages=%d splitk=%d red=%d swz=%d custom=%d inner=%d cluster=%d",
		a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster)
	return b.String()
}

// BLAS is the subset of cuBLASLt used by this program. The device's context must be current on the calling
// thread.
type BLAS interface {
	// Version is the library's version, for example 130002.
	Version() int
	// Prepare queries the heuristic for the best algorithm. The error wraps a *BLASError that is Unsupported
	// if there is no kernel for the problem.
	Prepare(p MatmulProblem) (Matmul, error)
}

// Matmul is a problem with its algorithm. Only one thread at a time may use it.
type Matmul interface {
	Algo() Algo
	Enqueue(Operands, Stream) error
	// Close frees host resources. Queued work is not affected.
	Close()
}
