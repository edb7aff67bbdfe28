package host

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/klauspost/compress/gzip"
)

// observed returns the PyTorch execution traces. If ENABLE_PYTORCH_EXECUTION_TRACE=1 is set, each process
// writes one into its folder for temporary files, which is TMPDIR = "{work_dir}".
func (h *Host) observed() []string {
	return matching(h.current.dir, "*.et.json")
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

// processPattern matches the process id of a trace. Execution traces contain it in their header, Kineto
// traces in their CPU events.
var processPattern = regexp.MustCompile(`"pid":\s*"?(\d+)`)

// headOfTrace is how much of a trace is searched for the process id, in bytes.
const headOfTrace = 8 << 20

// processOf returns the process id of a trace, or 0 if it is not found.
func processOf(file string) int {
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	var r io.Reader = f
	if ending(file) == ".json.gz" {
		z, err := gzip.NewReader(f)
		if err != nil {
			return 0
		}
		defer z.Close()
		r = z
	}

	data, err := io.ReadAll(io.LimitReader(r, headOfTrace))
	if err != nil && len(data) == 0 {
		return 0
	}

	if at := bytes.Index(data, []byte(`"cpu_op"`)); at >= 0 {
		data = data[at:]
	}

	m := processPattern.FindSubmatch(data)
	if m == nil {
		return 0
	}

	pid, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return 0
	}

	return pid
}
