package aiperf

import (
	"encoding/json"
	"math"
)

// Fleet returns AIPerf's metrics of all GPUs together. run is the text of SummaryJSON. watts and joules are the mean
// power and the energy of the profiling phase, or NaN if they are unknown. Metrics that need an unknown value are
// omitted.
func Fleet(run []byte, watts, joules float64) ([]Metric, error) {
	type entry struct{ Avg *float64 }
	var r struct {
		Duration   entry `json:"benchmark_duration"`
		Input      entry `json:"total_isl"`
		Output     entry `json:"total_osl"`
		Requests   entry `json:"request_count"`
		Latency    entry `json:"request_latency"`
		Throughput entry `json:"request_throughput"`
		TokenRate  entry `json:"output_token_throughput"`
		Goodput    entry `json:"goodput"`
		Config     struct {
			Phases []struct {
				Name        string
				Concurrency float64
			}
		} `json:"input_config"`
	}
	if err := json.Unmarshal(run, &r); err != nil {
		return nil, err
	}

	known := func(e entry) float64 {
		if e.Avg == nil {
			return math.NaN()
		}
		return *e.Avg
	}

	users := math.NaN()
	for _, p := range r.Config.Phases {
		if p.Name == Profiling && p.Concurrency > 0 {
			users = p.Concurrency
		}
	}

	duration := known(r.Duration)
	if math.IsNaN(joules) {
		joules = watts * duration
	}

	average, output, requests := joules/duration, known(r.Output), known(r.Requests)
	var out []Metric
	put := func(tag, name, unit string, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, Metric{Def: Def{Tag: "nvidia_" + tag, Name: name, Unit: unit}, Value: v})
		}
	}

	put("total_gpu_power", "Total GPU Power", "W", watts)
	put("average_gpu_power", "Average GPU Power", "W", average)
	put("total_gpu_energy", "Total GPU Energy", "J", joules)
	put("output_tokens_per_joule", "Output Tokens per Joule", "tokens/J", output/joules)
	put("energy_per_output_token", "Energy per Output Token", "mJ/token", 1e3*joules/output)
	put("energy_per_total_token", "Energy per Total Token", "mJ/token", 1e3*joules/(known(r.Input)+output))
	put("energy_per_request", "Energy per Request", "joules/request", joules/requests)
	put("energy_per_user", "Energy per User", "joules/user", joules/users)
	put("energy_delay_product", "Energy Delay Product", "J*s", joules/requests*known(r.Latency)/1e3)
	put("performance_per_watt", "Performance per Watt", "requests/sec/W", known(r.Throughput)/average)
	put("output_tps_per_watt", "Output Tokens per Second per Watt", "tokens/sec/W", known(r.TokenRate)/average)
	put("goodput_per_watt", "Goodput per Watt", "good-req/s/W", known(r.Goodput)/average)

	return out, nil
}
