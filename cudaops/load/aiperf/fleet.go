package aiperf

import (
	"errors"
	"math"

	"github.com/tidwall/gjson"
)

// Fleet returns AIPerf's metrics of all GPUs together. run is the text of SummaryJSON. watts and joules are the mean
// power and the energy of the profiling phase, or NaN if they are unknown. Metrics that need an unknown value are
// omitted.
func Fleet(run []byte, watts, joules float64) ([]Metric, error) {
	if !gjson.ValidBytes(run) {
		return nil, errors.New("the summary is no JSON")
	}

	value := func(path string) float64 {
		if v := gjson.GetBytes(run, path); v.Type == gjson.Number {
			return v.Num
		}
		return math.NaN()
	}

	duration := value("benchmark_duration.avg")
	if math.IsNaN(joules) {
		joules = watts * duration
	}

	average, output, requests := joules/duration, value("total_osl.avg"), value("request_count.avg")
	users := value(`input_config.phases.#(name=="` + Profiling + `").concurrency`)
	var out []Metric
	put := func(tag, name, unit string, v float64) {
		if finite(v) {
			out = append(out, Metric{Def{Tag: "nvidia_" + tag, Name: name, Unit: unit}, Stats{"avg": v}})
		}
	}

	put("total_gpu_power", "Total GPU Power", "W", watts)
	put("average_gpu_power", "Average GPU Power", "W", average)
	put("total_gpu_energy", "Total GPU Energy", "J", joules)
	put("output_tokens_per_joule", "Output Tokens per Joule", "tokens/J", output/joules)
	put("energy_per_output_token", "Energy per Output Token", "mJ/token", 1e3*joules/output)
	put("energy_per_total_token", "Energy per Total Token", "mJ/token", 1e3*joules/(value("total_isl.avg")+output))
	put("energy_per_request", "Energy per Request", "joules/request", joules/requests)
	put("energy_per_user", "Energy per User", "joules/user", joules/users)
	put("energy_delay_product", "Energy Delay Product", "J*s", joules/requests*value("request_latency.avg")/1e3)
	put("performance_per_watt", "Performance per Watt", "requests/sec/W", value("request_throughput.avg")/average)
	put("output_tps_per_watt", "Output Tokens per Second per Watt", "tokens/sec/W",
		value("output_token_throughput.avg")/average)
	put("goodput_per_watt", "Goodput per Watt", "good-req/s/W", value("goodput.avg")/average)

	return out, nil
}
