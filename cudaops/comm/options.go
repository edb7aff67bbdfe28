package comm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// Measurement methods.
const (
	MethodEager = "eager" // threads, back-to-back launches, timed by the host's clock between barriers
	MethodGraph = "graph" // one process per GPU, events inside a graph, time of the slowest rank
)

// options are the attributes of a runtime block of kind nccl.
type options struct {
	method string
	limit  float64 // time limit of a rank for one task, in seconds
	faults []fault

	// devices are the device indices of the ranks. Empty means all.
	devices []int

	// inPlace enables the in-place columns.
	inPlace bool

	// pin binds each rank to a CPU core.
	pin bool

	// nodes is the number of nodes, each with perNode ranks. If it is above one, rankLauncher starts the
	// ranks.
	nodes, perNode int
	rankLauncher   []string
}

// defaultLimit is long, because the first collective of a communicator establishes the connections.
const defaultLimit = 15

func readOptions(init worker.Init) (options, error) {
	o := options{limit: defaultLimit, inPlace: true, pin: true, nodes: 1}
	for name, v := range init.Options {
		var ok bool
		switch name {
		case "method":
			o.method, ok = v.(string)
			ok = ok && (o.method == MethodEager || o.method == MethodGraph)
			if !ok {
				return o, fmt.Errorf("option method is %v; it must be %q or %q", v, MethodEager, MethodGraph)
			}

		case "rank_deadline":
			o.limit, ok = number(v)
			if !ok || o.limit <= 0 || o.limit > 3600 {
				return o, fmt.Errorf("option rank_deadline is %v; it must be a number of seconds up to 3600", v)
			}

		case "devices":
			list, isList := v.([]any)
			for _, d := range list {
				n, ok := number(d)
				isList = isList && ok && n == float64(int(n))
				o.devices = append(o.devices, int(n))
			}
			if ints, ok := v.([]int); ok {
				o.devices, isList = ints, true
			}
			if !isList && v != nil {
				return o, fmt.Errorf("option devices is %v; it must be a list of device indices", v)
			}

		case "nodes":
			n, isNumber := number(v)
			if o.nodes = int(n); !isNumber || n != float64(o.nodes) || n < 1 || n > maxNodes {
				return o, fmt.Errorf("option nodes is %v; it must be a whole number from 1 to %d", v, maxNodes)
			}

		case "gpus_per_node":
			n, isNumber := number(v)
			if o.perNode = int(n); !isNumber || n != float64(o.perNode) || n < 1 || n > maxPerNode {
				return o, fmt.Errorf("option gpus_per_node is %v; it must be a whole number from 1 to %d", v,
					maxPerNode)
			}

		case "rank_launcher":
			list, isList := v.([]any)
			for _, w := range list {
				text, isText := w.(string)
				isList = isList && isText
				o.rankLauncher = append(o.rankLauncher, text)
			}
			if words, ok := v.([]string); ok {
				o.rankLauncher, isList = words, true
			}
			if !isList || len(o.rankLauncher) == 0 {
				return o, fmt.Errorf("option rank_launcher is %v; it must be a list of words such as %q", v, Srun[:3])
			}

		case "in_place":
			if o.inPlace, ok = v.(bool); !ok {
				return o, fmt.Errorf("option in_place is %v; it must be true or false", v)
			}

		case "pin":
			if o.pin, ok = v.(bool); !ok {
				return o, fmt.Errorf("option pin is %v; it must be true or false", v)
			}

		case "fault":
			text, ok := v.(string)
			if !ok {
				return o, fmt.Errorf("option fault is %v; it must be a text such as %q", v, faultExample)
			}
			var err error
			if o.faults, err = parseFaults(text); err != nil {
				return o, err
			}

		default:
			return o, fmt.Errorf("a runtime of kind nccl has no option %q", name)
		}
	}

	switch {
	case o.nodes > 1 && o.perNode == 0:
		return o, fmt.Errorf("option nodes is %d; gpus_per_node must say how many ranks are on each", o.nodes)
	case o.nodes > 1 && len(o.devices) > 0:
		return o, fmt.Errorf("option devices is for one node; across nodes a rank takes the GPU of its number on the node")
	case o.nodes == 1 && (o.perNode > 0 || len(o.rankLauncher) > 0):
		return o, fmt.Errorf("options gpus_per_node and rank_launcher are for several nodes; nodes says how many")
	}

	return o, nil
}

// Upper limits of options, to detect mistakes.
const (
	maxNodes   = 4096
	maxPerNode = 64
)

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

func readSettings(init worker.Init) (measure.Settings, error) {
	s := measure.Defaults()
	if len(init.Measure) > 0 {
		d := json.NewDecoder(bytes.NewReader(init.Measure))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return s, fmt.Errorf("measure settings: %w", err)
		}
	}

	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("measure settings: %w", err)
	}

	if s.Power {
		return s, fmt.Errorf("measure settings: power is not measured for collectives; leave power off")
	}

	return s, nil
}

// methodOf returns the method of a case. In order of precedence: the case's own method, the runtime's, the
// one implied by the measure block's graph setting, and def.
func methodOf(own string, o options, s measure.Settings, def string) (string, error) {
	switch {
	case own == MethodEager || own == MethodGraph:
		return own, nil
	case own != "":
		return "", fmt.Errorf("method is %q; it must be %q or %q", own, MethodEager, MethodGraph)
	case o.method != "":
		return o.method, nil
	case s.Graph == measure.GraphRequire:
		return MethodGraph, nil
	case s.Graph == measure.GraphOff:
		return MethodEager, nil
	}

	return def, nil
}

// fault is an injected fault for the cases that match.
type fault struct {
	what  string
	match map[string]string // parameter values by name; "case" is the case's id
}

const faultExample = "wrong_sum@op_name=all_reduce,num_gpus=2,message_size=1024"

// parseFaults parses "what@name=value,name=value; what@case=ID".
func parseFaults(text string) ([]fault, error) {
	var out []fault
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}

		what, conditions, _ := strings.Cut(part, "@")
		f := fault{what: strings.TrimSpace(what), match: map[string]string{}}
		known := []string{FaultWrongSum, FaultDie, FaultHang}
		if !slices.Contains(known, f.what) {
			return nil, fmt.Errorf("option fault: there is no fault %q; there are %s", f.what,
				strings.Join(known, ", "))
		}

		for cond := range strings.SplitSeq(conditions, ",") {
			if strings.TrimSpace(cond) == "" {
				continue
			}
			name, value, ok := strings.Cut(cond, "=")
			if !ok {
				return nil, fmt.Errorf("option fault: %q is no name=value; an example is %q", cond, faultExample)
			}
			f.match[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}

		out = append(out, f)
	}

	return out, nil
}

// faultFor returns the fault to inject into a case, or "".
func (o options) faultFor(p *params) string {
	for _, f := range o.faults {
		hit := true
		for name, want := range f.match {
			hit = hit && p.text(name) == want
		}
		if hit {
			return f.what
		}
	}
	return ""
}
