package trace

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
)

// Phase describes the kernels of one phase of a serving engine's steps, by class.
type Phase struct {
	Name  string `json:"name"` // prefill or decode
	Steps int64  `json:"steps"`
	// WallNs is the time from the start of the phase's first kernel to the end of its last.
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

// Kernel classes: matrix products with weights, attention including its cache, communication, and
// everything else (norms, activations, embeddings, sampling).
const (
	ClassGEMM          = "gemm"
	ClassAttention     = "attention"
	ClassCommunication = "communication"
	ClassOther         = "other"
)

var (
	attentionKernel = regexp.MustCompile(`(?i)flash|fmha|attention|attn|reshape_and_cache|paged_kv|mla_|prepare_varlen`)
	gemmKernel      = regexp.MustCompile(
		`(?i)nvjet|gemm|gemv|splitk|cijk_|cublas|cutlass.*(universal|kernel2)|xmma` +
			`|triton_tem_.*mm|matmul|fused_moe_kernel|marlin|\bbmm_`,
	)
	// flashinfer matches FlashInfer kernels that are not attention. FlashInfer contains kernels of all
	// classes.
	flashinfer = regexp.MustCompile(
		`(?i)flashinfer(::)?(norm|activation|sampling|quantization|gemm|group_gemm|rope|\w*rotary|moe)`,
	)
)

// classOf returns the class of a kernel that is not communication.
func classOf(kernel string) string {
	switch {
	case attentionKernel.MatchString(kernel) && !flashinfer.MatchString(kernel):
		return ClassAttention
	case gemmKernel.MatchString(kernel):
		return ClassGEMM
	}
	return ClassOther
}

// engineStep matches vLLM's step names. They contain the number of requests in prefill and in decode.
var engineStep = regexp.MustCompile(`^execute_context_(\d+)\(\d+\)_generation_(\d+)\(\d+\)`)

// phasing assigns kernels to the phases of a batch: steps with requests in prefill, followed by steps
// without. Kernels between two steps, such as sampling, belong to the earlier step.
type phasing struct {
	names   []kernelName
	classes []string   // by index of names; "" if not classified yet
	all     []*inPhase // sorted by time
}

// inPhase is a phase while its kernels are added.
type inPhase struct {
	Phase
	from  int64 // start of the first step
	start int64 // of the first kernel
	on    covered
	by    map[string]*ClassTime
}

// newPhasing derives the phases from the names of the steps. There are no phases if a name is unknown, or
// if a prefill follows a decode, because kernels could not be assigned then.
func newPhasing(names []kernelName, steps []span) *phasing {
	p := &phasing{names: names, classes: make([]string, len(names))}
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
				continue // empty step
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

// add adds a kernel. Kernels must be added in order of their start.
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
		if n := p.names[name]; n.kind == "" {
			p.classes[name] = classOf(n.name)
		}
	}
	return p.classes[name]
}

func (in *inPhase) add(class string, k kernel) {
	of := in.by[class]
	if of == nil {
		if len(in.by) == 0 {
			in.start = k.start
		}
		of = &ClassTime{Class: class}
		in.by[class] = of
	}

	of.Count++
	of.SumNs = plus(of.SumNs, k.end-k.start)
	in.on.add(k.interval)
}

// finish returns the phases that have kernels, or nil if there are none.
func (p *phasing) finish() []Phase {
	var out []Phase
	for _, in := range p.all {
		if len(in.by) == 0 {
			continue
		}
		in.WallNs, in.BusyNs = in.on.end-in.start, in.on.length
		for _, c := range in.by {
			in.Classes = append(in.Classes, *c)
		}
		slices.SortFunc(in.Classes, func(a, b ClassTime) int {
			return cmp.Or(cmp.Compare(b.SumNs, a.SumNs),
				cmp.Compare(a.Class, b.Class))
		})
		out = append(out, in.Phase)
	}

	return out
}
