package runtimes

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/server"
	"aicplan/cudaops/server/host"
	"aicplan/engine/stage"
)

// missingNsys returns a message if a trace block requests nsys and no usable nsys is found here, or "".
// Without this check, the error would appear only after the measurement.
func missingNsys(rt *stage.Runtime, blocks map[string]cty.Value) string {
	if !flagAt(blocks["trace"], "nsys") {
		return ""
	}
	program := append(textsAt(rt.Options["profiler"], "nsys"), host.DefaultNsys[0])[0]

	_, ownPath := rt.Env["PATH"]
	inDir := strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program)
	if ownPath || inDir || len(server.Names(program)) > 0 {
		return "" // it is searched where the server starts
	}

	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Sprintf(
			"trace asks for nsys and %s is not on this machine: cases are measured and get no report; install Nsight Systems, "+
				"or give nsys of the profiler block its path",
			program,
		)
	}

	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}

	if strings.Contains(path, "nsight-compute") {
		return fmt.Sprintf(
			"trace asks for nsys and %s is the copy inside of Nsight Compute, which records and makes no report; install "+
				"Nsight Systems, or give nsys of the profiler block its path",
			path,
		)
	}

	return ""
}
