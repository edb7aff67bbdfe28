package gate

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
)

// cudaGraph: share of rows that were measured without a CUDA graph. The time of a
// short kernel that is launched one by one is the host's: published fp8_block rows
// of vLLM were withdrawn for that.
type cudaGraph struct {
	Max float64 `hcl:"max,optional" json:"max"`
	// Above leaves out rows of a latency from which on a launch does not count, in
	// milliseconds; 0 leaves out none.
	Above float64 `hcl:"above,optional" json:"above,omitempty"`
}

func (c *cudaGraph) prepare(r hcl.Range) hcl.Diagnostics {
	if !(c.Max >= 0 && c.Max <= 1) {
		return hcl.Diagnostics{problem("Wrong share", fmt.Sprintf("max is %s; a share lies between 0 and 1.", number(c.Max)), r)}
	}
	if !(c.Above >= 0) {
		return hcl.Diagnostics{problem("Wrong latency", fmt.Sprintf("above is %s; it is a latency in milliseconds.", number(c.Above)), r)}
	}
	return nil
}

func (c *cudaGraph) run(s *subject) finding {
	long := func(int) bool { return false }
	if c.Above > 0 {
		if column(s.rec, s.metric()) == nil {
			return s.cannot(fmt.Sprintf("the data has no column %q", s.metric()))
		}
		times, err := numbers(s.rec, s.metric())
		if err != nil {
			return s.cannot(err.Error())
		}
		long = func(i int) bool { return !times.null[i] && times.val[i] >= c.Above }
	}
	out, bad, judged := s.flagged("used_cuda_graph", "whether a CUDA graph was used was not said", c.Max, func(i int, v float64) bool { return v == 0 && !long(i) })
	if judged == 0 {
		return out
	}
	out.message = fmt.Sprintf("%d of %d rows were measured without a CUDA graph", len(bad), judged)
	if !out.ok {
		out.rows = s.worst(bad, s.metric(), "kernel_source")
		out.fix = "their time holds the host's launches; measure with graph = \"require\", or leave these rows out"
	}
	return out
}
