package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// Origin is where the rows of a table are expected to come from. Empty fields are not compared, but all
// rows must agree on them.
type Origin struct {
	Framework, Version, Device string
	// Backend is the name of the framework in databases, such as vllm. It is compared with the labels
	// and kernels of the rows; "" compares neither.
	Backend string
}

// Mismatch is a group of rows with another origin than expected.
type Mismatch struct {
	Count   int
	Message string
}

// NoColumn begins the message about a column that the table lacks.
const NoColumn = "the data has no column "

// Provenance compares the columns framework, version and device with the origin, and reports rows of a
// device that does not belong to the system and kernels that belong to another framework.
func (t *Table) Provenance(want Origin) []Mismatch {
	var out []Mismatch
	for _, c := range []struct{ name, want string }{
		{"framework", want.Framework}, {"version", want.Version}, {"device", want.Device},
	} {
		at := table.Index(t.Rec, c.name)
		if at < 0 {
			if t.Perf == nil || t.Perf.Identified() { // the folder states the origin of other tables
				out = append(out, Mismatch{len(t.Values), NoColumn + c.name})
			}
			continue
		}

		counts := map[string]int{}
		for i := range len(t.Values) {
			counts[table.Text(t.Rec.Column(at), i)]++
		}

		for _, got := range slices.Sorted(maps.Keys(counts)) {
			if text := t.mismatch(c.name, got, c.want, len(counts), want.Backend); text != "" {
				out = append(out, Mismatch{counts[got], fmt.Sprintf("%d rows %s", counts[got], text)})
			}
		}
	}

	return append(out, t.foreignKernels(want.Backend)...)
}

// mismatch describes how a value differs from the expected one. It returns "" if they are equal.
func (t *Table) mismatch(column, got, want string, different int, backend string) string {
	switch {
	case got == "":
		return "have no " + column
	case want == "" && different > 1:
		return fmt.Sprintf("have the %s %q, others another one", column, got)
	case want != "" && !sameWord(column, got, want):
		return fmt.Sprintf("have the %s %q, not %q", column, got, want)
	}

	switch column {
	case "device":
		if t.System == nil {
			return ""
		}
		if match, known := t.System.MatchesDevice(got); known && !match {
			return fmt.Sprintf("come from %q, which is not a device of %s (%s)", got, t.System.Name, t.System.DeviceName())
		}

	case "framework":
		if backend == "" || t.Perf != nil && t.Perf.Library == backend {
			return "" // collectives are measured by whichever framework drives them
		}
		if b, ok := catalog.BackendOf(got); !ok || b.Name != backend {
			return fmt.Sprintf("have the framework %q, and the folder is of %s", got, backend)
		}
	}

	return ""
}

// KernelLevel is the version in tables of kernels that do not depend on the framework: any version has their rows.
const KernelLevel = "kernel-level"

// sameWord compares a value of a column with the expected one. Framework labels are compared without case because files
// spell them differently, and versions without local suffixes: 0.14.0 may be written as 0.14.0+cu130.
func sameWord(column, got, want string) bool {
	switch column {
	case "framework":
		return strings.EqualFold(got, want)
	case "version":
		got, _, _ = strings.Cut(got, "+")
		want, _, _ = strings.Cut(want, "+")
		return got == want || got == KernelLevel
	}
	return got == want
}

// kernelPrefixes are beginnings of kernel names that only one framework's collectors write, by backend.
var kernelPrefixes = map[string][]string{
	"sglang": {"sglang"},
	"trtllm": {"torch_flow", "moe_torch_flow", "trt_flow", "trtllm_bmm", "trtllm_mhc"},
	"vllm":   {"vllm", "torch.nn.functional", "cutlassfp8", "deepgemmfp8"},
}

// foreignKernels reports rows whose kernel_source names a kernel of another framework than backend: rows
// that were relabelled.
func (t *Table) foreignKernels(backend string) []Mismatch {
	if kernelPrefixes[backend] == nil {
		return nil
	}

	counts := table.Counts(t.Rec, "kernel_source")
	var out []Mismatch
	for _, kernel := range slices.Sorted(maps.Keys(counts)) {
		for owner, prefixes := range kernelPrefixes {
			begins := func(prefix string) bool { return strings.HasPrefix(strings.ToLower(kernel), prefix) }
			if owner != backend && slices.ContainsFunc(prefixes, begins) {
				out = append(out, Mismatch{counts[kernel], fmt.Sprintf(
					"%d rows name the kernel %q, which belongs to %s and not to %s", counts[kernel], kernel, owner, backend)})
			}
		}
	}

	return out
}
