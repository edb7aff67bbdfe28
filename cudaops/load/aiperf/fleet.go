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
	put := func(tag string, v float64) {
		if finite(v) {
			out = append(out, Metric{overallDef("nvidia_" + tag), Stats{"avg": v}})
		}
	}

	put("total_gpu_power", watts)
	put("average_gpu_power", average)
	put("total_gpu_energy", joules)
	put("output_tokens_per_joule", output/joules)
	put("energy_per_output_token", 1e3*joules/output)
	put("energy_per_total_token", 1e3*joules/(value("total_isl.avg")+output))
	put("energy_per_request", joules/requests)
	put("energy_per_user", joules/users)
	put("energy_delay_product", joules/requests*value("request_latency.avg")/1e3)
	put("performance_per_watt", value("request_throughput.avg")/average)
	put("output_tps_per_watt", value("output_token_throughput.avg")/average)
	put("goodput_per_watt", value("goodput.avg")/average)

	return out, nil
}
