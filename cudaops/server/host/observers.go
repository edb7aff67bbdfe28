package host

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
)

// observed returns the PyTorch execution traces. If ENABLE_PYTORCH_EXECUTION_TRACE=1 is set, each process
// writes one into its folder for temporary files, which is TMPDIR = "{work_dir}".
func (h *Host) observed() []string {
	return matching(h.current.folder.Path, "*.et.json")
}

// observers attaches the execution traces that are not in had. They contain a process id, and t.processes
// maps it to a rank.
func (h *Host) observers(had []string, t *tracing) error {
	found := slices.DeleteFunc(h.observed(), func(name string) bool { return slices.Contains(had, name) })
	var errs []error

	for _, file := range found {
		rank, ok := t.processes[processOf(file)]
		if !ok && len(found) == 1 && len(t.ranks) == 1 {
			for r := range t.ranks {
				rank, ok = r, true
			}
		}

		if !ok {
			continue // the front end has no rank
		}

		if err := h.attach(t, file, "torch_et_"+strconv.Itoa(rank)+".json"); err != nil {
			errs = append(errs, err)
			continue
		}

		t.kind("torch_et")
	}

	return errors.Join(errs...)
}

// processPattern matches the process id in the header of an execution trace.
var processPattern = regexp.MustCompile(`"pid":\s*"?(\d+)`)

// processOf returns the process id of an execution trace, or "" if it is not found.
func processOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()

	head, _ := io.ReadAll(io.LimitReader(f, 64<<10)) // what cannot be read has no process id
	if m := processPattern.FindSubmatch(head); m != nil {
		return string(m[1])
	}
	return ""
}
