package host

import (
	"runtime"
	"strings"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/server"
)

// FactsFile is the attachment that describes the environment of a case. Workload cards are generated from
// it.
const FactsFile = "experiment_facts.json"

// facts describe the machine. Empty and null fields are unknown.
type facts struct {
	Driver string     `json:"driver_version,omitempty"`
	CUDA   int        `json:"cuda_version,omitempty"` // newest version supported by the driver, as 13000
	GPUs   []gpuFacts `json:"gpus,omitempty"`
	CPUs   int        `json:"cpus"`
	OS     string     `json:"os"`
	Arch   string     `json:"arch"`

	// NVLinks is the number of active NVLinks of the first GPU, or null if unknown.
	NVLinks  *int  `json:"nvlinks"`
	NVSwitch *bool `json:"nvswitch"`
}

type gpuFacts struct {
	Index  int    `json:"index"`
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Memory *int64 `json:"memory_bytes"`
	PowerW *int   `json:"power_limit_w"`
}

// look reads the facts about the given GPUs from NVML.
func look(open func() (nvml.API, error), gpus []GPU) *facts {
	f := &facts{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if len(gpus) == 0 {
		return f
	}

	api, err := open()
	if err != nil {
		return f
	}
	f.Driver, _ = api.DriverVersion()
	f.CUDA, _ = api.CUDAVersion()

	for i, g := range gpus {
		if g.UUID == "" {
			continue
		}

		d, err := nvml.Find(api, g.UUID)
		if err != nil {
			continue
		}

		id := d.Identity()
		one := gpuFacts{Index: id.Index, UUID: id.UUID, Name: id.Name}
		if m, err := d.Memory(); err == nil {
			one.Memory = &m.Total
		}

		if p, err := d.Power(); err == nil && p.Limit > 0 {
			one.PowerW = new(int(p.Limit))
		}

		f.GPUs = append(f.GPUs, one)
		if l, ok := d.(nvml.Linked); ok && i == 0 {
			if links, err := l.Links(); err == nil {
				n, sw := len(links), false
				for _, x := range links {
					sw = sw || x.Switch
				}
				f.NVLinks, f.NVSwitch = &n, &sw
			}
		}
	}

	return f
}

// communication returns the variables of environments that configure communication libraries. The last
// value of a name wins. Other variables are omitted, because they may be secrets. NCCL_VERSION is not a
// setting: images set it to the version of the installed package, which may differ from the loaded one.
func communication(env []string) map[string]string {
	out := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if server.Placeholder(value) {
			continue // no value for this case
		}
		if strings.HasPrefix(name, "NCCL_") && name != "NCCL_VERSION" || strings.HasPrefix(name, "NVSHMEM_") {
			out[name] = value
		}
	}
	return out
}
