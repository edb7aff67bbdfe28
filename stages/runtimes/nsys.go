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
	if v := attribute(blocks["trace"], "nsys"); v == cty.NilVal || v.Type() != cty.Bool || v.False() {
		return ""
	}

	program := host.DefaultNsys[0]
	if v := attribute(rt.Options["profiler"], "nsys"); v != cty.NilVal && v.CanIterateElements() && v.LengthInt() > 0 {
		if first := v.Index(cty.NumberIntVal(0)); first.IsKnown() && !first.IsNull() && first.Type() == cty.String {
			program = first.AsString()
		}
	}

	_, ownPath := rt.Env["PATH"]
	inDir := strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program)
	if ownPath || inDir || len(server.Names(program)) > 0 {
		return "" // it is searched where the server starts
	}

	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Sprintf("trace asks for nsys and %s is not on this machine: cases are measured and get no report; install Nsight Systems, or give nsys of the profiler block its path",
			program)
	}

	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}

	if strings.Contains(path, "nsight-compute") {
		return fmt.Sprintf("trace asks for nsys and %s is the copy inside of Nsight Compute, which records and makes no report; install Nsight Systems, or give nsys of the profiler block its path",
			path)
	}

	return ""
}

// attribute returns an attribute of an object. It returns cty.NilVal if the attribute is missing or
// unknown.
func attribute(of cty.Value, name string) cty.Value {
	if of == cty.NilVal || of.IsNull() || !of.IsKnown() || !of.Type().IsObjectType() || !of.Type().HasAttribute(name) {
		return cty.NilVal
	}
	if v := of.GetAttr(name); v.IsKnown() && !v.IsNull() {
		return v
	}
	return cty.NilVal
}
