package ops

import (
	"strings"

	"aicplan/cudaops/cuda"
)

// fakeCompiler is a fake cuda.Compiler that records the compiled programs.
type fakeCompiler struct{ Programs []cuda.Program }

// Version implements cuda.Compiler.
func (r *fakeCompiler) Version() (major, minor int) { return 13, 0 }

// Compile implements cuda.Compiler.
func (r *fakeCompiler) Compile(p cuda.Program) ([]byte, error) {
	r.Programs = append(r.Programs, p)
	if strings.Contains(p.Source, "#error") {
		return nil, &cuda.CompileError{Name: p.Name, Log: p.Name + "(1): error: #error directive"}
	}
	return []byte("cubin"), nil
}
