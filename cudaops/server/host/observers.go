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

	"aicplan/cudaops/worker"
)

// observed lists the execution traces of PyTorch: ENABLE_PYTORCH_EXECUTION_TRACE=1
// has every process write one into its temporary folder, TMPDIR = "{work_dir}".
func (h *Host) observed() []string {
	return matching(h.current.dir, "*.et.json")
}

// observers attaches the execution traces that came since. They name a process, and
// the profiler's traces say of which rank it is.
func (h *Host) observers(a *ask, had []string, processes map[int]int, t *tracing, out worker.Emitter) error {
	found := slices.DeleteFunc(h.observed(), func(name string) bool { return slices.Contains(had, name) })
	var errs []error
	for _, file := range found {
		rank, ok := processes[processOf(file)]
		if !ok && len(found) == 1 && len(t.ranks) == 1 {
			for r := range t.ranks {
				rank, ok = r, true
			}
		}
		if !ok {
			continue // of the front end, which has no rank
		}
		if err := h.attach(a, file, "torch_et_"+strconv.Itoa(rank)+".json", out); err != nil {
			errs = append(errs, err)
			continue
		}
		t.kind("torch_et")
	}
	return errors.Join(errs...)
}

// processPattern finds the process of a trace: of an execution trace in its head,
// of a Kineto trace in its first events of the processor.
var processPattern = regexp.MustCompile(`"pid":\s*"?(\d+)`)

// headOfTrace is how much of a trace is looked at for its process, in bytes.
const headOfTrace = 8 << 20

// processOf is the process that a trace is of; 0 where it does not say.
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
