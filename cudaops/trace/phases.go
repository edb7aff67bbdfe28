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
	gemmKernel      = regexp.MustCompile(`(?i)nvjet|gemm|gemv|splitk|cijk_|cublas|cutlass.*(universal|kernel2)|xmma|triton_tem_.*mm|matmul|fused_moe_kernel|marlin|\bbmm_`)
	// FlashInfer has kernels of all classes, and its name is no kernel's.
	flashinfer = regexp.MustCompile(`(?i)flashinfer(::)?(norm|activation|sampling|quantization|gemm|group_gemm|rope|\w*rotary|moe)`)
)

// classOf names the class of a kernel that no rule takes for communication.
func classOf(kernel string) string {
	switch {
	case attentionKernel.MatchString(kernel) && !flashinfer.MatchString(kernel):
		return ClassAttention
	case gemmKernel.MatchString(kernel):
		return ClassGEMM
	}
	return ClassOther
}

// engineStep is vLLM's name of a step: how many requests are in their prefill and
// how many decode.
var engineStep = regexp.MustCompile(`^execute_context_(\d+)\(\d+\)_generation_(\d+)\(\d+\)`)

// phasing divides the kernels of a recording of one batch: steps with requests in
// their prefill, then steps without. What runs behind a step and before the next
// one, such as sampling, belongs to the step.
type phasing struct {
	d       *device
	classes []string   // of the device's names; empty where not looked at yet
	all     []*inPhase // in order of time
}

// inPhase is one phase while its kernels come.
type inPhase struct {
	Phase
	from       int64 // start of its first step
	start, end int64 // of its kernels
	by         map[string]*ClassTime
}

// newPhasing takes the phases from the names of the steps. It has none where the
// steps do not say what they are, and where prefills follow decodes: what a kernel
// did is not known then.
func newPhasing(d *device, steps []span) *phasing {
	p := &phasing{d: d, classes: make([]string, len(d.names))}
	for _, s := range steps {
		m := engineStep.FindStringSubmatch(s.name)
		if m == nil {
			return &phasing{}
		}
		name := Prefill
		if n, err := strconv.Atoi(m[1]); err != nil {
			return &phasing{}
		} else if n == 0 {
			if m[2] == "0" {
				continue // nothing was scheduled
			}
			name = Decode
		}
		last := len(p.all) - 1
		if last < 0 || p.all[last].Name != name {
			if name == Prefill && last >= 0 {
				return &phasing{}
			}
			p.all = append(p.all, &inPhase{Phase: Phase{Name: name}, from: s.start, by: map[string]*ClassTime{}})
			last++
		}
		p.all[last].Steps++
	}
	return p
}

// add takes the next kernel; kernels come in order of their start.
func (p *phasing) add(k kernel) {
	for _, in := range slices.Backward(p.all) {
		if k.start >= in.from {
			in.add(p.class(k.name), k)
			return
		}
	}
}

func (p *phasing) class(name int32) string {
	if p.classes[name] == "" {
		p.classes[name] = ClassCommunication
		if n := p.d.names[name]; n.rule < 0 {
			p.classes[name] = classOf(n.name)
		}
	}
	return p.classes[name]
}

func (in *inPhase) add(class string, k kernel) {
	of := in.by[class]
	if of == nil {
		if len(in.by) == 0 {
			in.start, in.end = k.start, k.start
		}
		of = &ClassTime{Class: class}
		in.by[class] = of
	}
	of.Count++
	of.SumNs = plus(of.SumNs, k.end-k.start)
	if k.end > in.end {
		in.BusyNs += k.end - max(in.end, k.start)
		in.end = k.end
	}
}

// finish returns the phases that have kernels; nil where there are none.
func (p *phasing) finish() []Phase {
	var out []Phase
	for _, in := range p.all {
		if len(in.by) == 0 {
			continue
		}
		in.WallNs = in.end - in.start
		for _, c := range in.by {
			in.Classes = append(in.Classes, *c)
		}
		slices.SortFunc(in.Classes, func(a, b ClassTime) int { return cmp.Or(cmp.Compare(b.SumNs, a.SumNs), cmp.Compare(a.Class, b.Class)) })
		out = append(out, in.Phase)
	}
	return out
}
