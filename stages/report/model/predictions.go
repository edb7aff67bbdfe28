package model

import (
	"reflect"
	"slices"

	"aicplan/stages/gate/results"
)

// Comparison is a gate's comparison of the predictions of workloads with their
// measurements.
type Comparison struct {
	Gate   string `json:"gate"`
	Result string `json:"result"`
	*results.Prediction
}

// comparisons are those of all gates. One that two gates made of the same data, once
// with traces, is shown once, with the result of the gate without traces.
func comparisons(groups []results.Group) []Comparison {
	var out []Comparison
	for _, g := range groups {
		for _, c := range g.Checks {
			p, ok := results.PredictionOf(c)
			if !ok {
				continue
			}

			x := Comparison{g.Address, c.Result, p}
			at := slices.IndexFunc(out, func(o Comparison) bool {
				return o.Predicted == p.Predicted && (o.Traces == "") != (p.Traces == "") && reflect.DeepEqual(o.Tables, p.Tables)
			})
			switch {
			case at < 0:
				out = append(out, x)
			case p.Traces != "":
				out[at].Gate, out[at].Prediction = out[at].Gate+" and "+x.Gate, p
			default:
				out[at].Gate, out[at].Result = x.Gate+" and "+out[at].Gate, x.Result
			}
		}
	}

	return out
}
