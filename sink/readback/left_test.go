package readback

import (
	"path/filepath"
	"testing"

	"aicplan/sink/base/testutil"
)

// TestAnswersReturnWhileAChildKeepsTheOutputOpen checks that a process that a wrapper of the interpreter started does
// not delay the answers.
func TestAnswersReturnWhileAChildKeepsTheOutputOpen(t *testing.T) {
	t.Parallel()
	dir := database(t, row("1", "0.5"), row("16", "0.7"))
	wrapper := filepath.Join(t.TempDir(), "python")
	testutil.WriteProgram(t, wrapper, "#!/bin/sh\nwhile test -d "+dir+"; do sleep 0.05; done &\n"+python(t)+" \"$@\"\n")
	r, err := Run(t.Context(), dir, options(wrapper, ""))
	if err != nil {
		t.Fatal(err)
	}
	if gemm := find(t, r, "gemm_perf"); gemm.Result != Pass || gemm.Answered != 8 {
		t.Errorf("%+v", gemm)
	}
}
