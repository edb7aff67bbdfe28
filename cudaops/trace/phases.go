package trace

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
)

// Phase is what a device did in one phase of a serving engine's steps, by classes
// of kernels.
type Phase struct {
	Name  string `json:"name"` // prefill or decode
	Steps int64  `json:"steps"`
	// WallNs is from the start of the phase's first kernel to the end of its last.
	WallNs  int64       `json:"wall_ns"`
	BusyNs  int64       `json:"busy_union_ns"`
	Classes []ClassTime `json:"classes"`
}

// ClassTime is the time of the kernels of one class.
type ClassTime struct {
	Class string `json:"class"`
	Count int64  `json:"count"`
	SumNs int64  `json:"sum_ns"`
}

// Phases of a serving engine's steps.
const (
	Prefill = "prefill"
	Decode  = "decode"
)

// Classes of kernels, as planners divide a model: products with weights, attention
// with its cache, communication, and all others (norms, activations, embeddings,
// sampling).
const (
	ClassGEMM          = "gemm"
	ClassAttention     = "attention"
	ClassCommunication = "communication"
	ClassOther         = "other"
)

var (
	attentionKernel = regexp.MustCompile(`(?i)flash|fmha|attention|attn|reshape_and_cache|paged_kv|mla_|prepare_varlen`)
	gemmKernel      = regexp.MustCompile(`(?i)nvjet|gemm|gemv|splitk|cijk_|cublas|cutlass.*(universal|kernel2)|xmma|triton_tem_.*mm|matmul`)
)

// classOf names the class of a kernel that no rule takes for communication.
func classOf(kernel string) string {
	switch {
	case attentionKernel.MatchString(kernel):
		return ClassAttention
	case gemmKernel.MatchString(kernel):
		return ClassGEMM
	}
	return ClassOther
}

// engineStep is vLLM's name of a step: how many requests are in their prefill and
// how many decode.
var engineStep = regexp.MustCompile(`^execute_context_(\d+)\(\d+\)_generation_(\d+)\(\d+\)`)

// phases divides a recording of one batch: steps with requests in their prefill,
// then steps without. What runs behind a step and before the next one, such as
// sampling, belongs to the step. It is nil where the steps do not say what they
// are, and where prefills follow decodes: what a kernel did is not known then.
func (r *recording) phases(d *device, steps []span) []Phase {
	first := map[string]int64{}
	count := map[string]int64{}
	for _, s := range steps {
		m := engineStep.FindStringSubmatch(s.name)
		if m == nil {
			return nil
		}
		name := Prefill
		if n, err := strconv.Atoi(m[1]); err != nil {
			return nil
		} else if n == 0 {
			if m[2] == "0" {
				continue // nothing was scheduled
			}
			name = Decode
		}
		if name == Prefill && count[Decode] > 0 {
			return nil
		}
		if count[name] == 0 {
			first[name] = s.start
		}
		count[name]++
	}
	var out []Phase
	for _, name := range []string{Prefill, Decode} {
		if count[name] == 0 {
			continue
		}
		p := Phase{Name: name, Steps: count[name]}
		var in []kernel
		for _, k := range d.kernels {
			if k.start >= first[name] && (name == Decode || count[Decode] == 0 || k.start < first[Decode]) {
				in = append(in, k)
			}
		}
		if len(in) > 0 {
			p.measure(d, in)
			out = append(out, p)
		}
	}
	return out
}

// measure adds up kernels, which are in order of their start.
func (p *Phase) measure(d *device, in []kernel) {
	by := map[string]*ClassTime{}
	end := in[0].start
	for _, k := range in {
		n := d.names[k.name]
		class := ClassCommunication
		if n.rule < 0 {
			class = classOf(n.name)
		}
		if by[class] == nil {
			by[class] = &ClassTime{Class: class}
		}
		by[class].Count++
		by[class].SumNs += k.end - k.start
		if k.end > end {
			p.BusyNs += k.end - max(end, k.start)
			end = k.end
		}
	}
	p.WallNs = end - in[0].start
	for _, c := range by {
		p.Classes = append(p.Classes, *c)
	}
	slices.SortFunc(p.Classes, func(a, b ClassTime) int { return cmp.Or(cmp.Compare(b.SumNs, a.SumNs), cmp.Compare(a.Class, b.Class)) })
}
