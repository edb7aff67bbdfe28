package gate

import (
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// withKernels is a table of one op with the kernels of its rows; "" is null.
func withKernels(version string, kernels ...string) *stage.Dataset {
	m, valid, versions := make([]int64, len(kernels)), make([]bool, len(kernels)), make([]string, len(kernels))
	for i, k := range kernels {
		m[i], valid[i], versions[i] = 1<<i, k != "", version
	}
	return &stage.Dataset{
		Table: table.NewRecord([]string{"m", "version", "kernels"},
			[]arrow.Array{table.Ints(m, nil), table.Texts(versions, nil), table.Texts(kernels, valid)}),
		Info: stage.Info{Op: "gemm", Params: []string{"m"}},
	}
}

func TestServedKernels(t *testing.T) {
	t.Parallel()
	server := withKernels("0.25.0", `{"gemm_a":6,"norm":1}`, `{"gemm_b":2,"copy":1}`)
	const check = `check "served" { rows = [dedupe.gemm, import.old] }`

	good, attention := withKernels("0.25.0", `{"gemm_a":1}`, `{"gemm_b":1,"copy":1}`), withKernels("0.25.0", `{"norm":2}`)
	expect(t, only(t, run(t, server, check, good, attention)), "pass",
		"0 of 3 rows have a kernel that the server did not run; 0.00 % of its kernel time")

	// A row's kernel that never ran, and a kernel without a row.
	other := withKernels("0.25.0", `{"gemm_a":1}`, `{"gemm_c":1}`, `{"gemm_c":1}`)
	f := only(t, run(t, server, check, other, attention))
	expect(t, f, "fail",
		"2 of 4 rows have a kernel that the server did not run; 30.00 % of its kernel time",
		"not run by the server: gemm_c (2 rows, such as dedupe.gemm m=2)", "without a row: gemm_b (20.00 % of the kernel "+
			"time)",
		"without a row: copy (10.00 %")
	lenient := strings.Replace(check, "rows = [dedupe.gemm, import.old] }",
		"\nrows = [dedupe.gemm, import.old]\n max_rows = 0.5\n max_time = 0.3\n}", 1)
	expect(t, only(t, run(t, server, lenient, other, attention)), "pass", "2 of 4 rows")
	ignoring := strings.Replace(check, "rows = [dedupe.gemm, import.old] }",
		"\nrows = [dedupe.gemm, import.old]\n ignore = [\"^gemm_[bc]$\", \"^copy$\"]\n}", 1)
	expect(t, only(t, run(t, server, ignoring, other, attention)), "pass", "0 of 4 rows")

	// What is not known has not passed.
	expect(t, only(t, run(t, server, check, withKernels("0.25.0", `{"gemm_a":1,"gemm_b":1,"copy":1,"norm":1}`, ""),
		attention)),
		"fail", "rows of dedupe.gemm name no kernels")
	expect(t, only(t, run(t, server, check, withKernels("0.24.0", `{"gemm_a":1}`), attention)), "fail",
		"dedupe.gemm: the rows have the version 0.24.0 and the server has 0.25.0")
	expect(t, only(t, run(t, measured(1), check, good, attention)), "fail", `no column "kernels"`)
	expect(t, only(t, run(t, withKernels("0.25.0", ""), check, good, attention)), "fail",
		"the server's rows have no kernels")
	expect(t, only(t, run(t, server, check, withKernels("0.25.0", `gemm`), attention)), "fail",
		"kernels is no JSON object")
}
