package gate

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
)

// cudaGraph checks the share of rows that were measured without a CUDA graph. If short kernels are
// launched one by one, host launch time dominates; published fp8_block rows of vLLM were withdrawn for
// that reason.
type cudaGraph struct {
	Max float64 `hcl:"max,optional" json:"max"`
}

func (c *cudaGraph) prepare(r hcl.Range) hcl.Diagnostics { return shareBetween("max", c.Max, r) }

func (c *cudaGraph) run(s *subject) finding {
	out, bad, judged := s.flagged("used_cuda_graph", "whether a CUDA graph was used was not said", c.Max,
		func(v float64) bool { return v == 0 })
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
