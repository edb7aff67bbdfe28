package host

import (
	"runtime"
	"strings"

	"aicplan/cudaops/nvml"
)

// FactsFile is the attachment with what was measured and configured around a case;
// a workload card is filled from it.
const FactsFile = "experiment_facts.json"

// facts are what the machine says of itself. Empty and null fields are unknown.
type facts struct {
	Driver string     `json:"driver_version,omitempty"`
	CUDA   int        `json:"cuda_version,omitempty"` // the newest that the driver supports, as 13000
	NCCL   string     `json:"nccl_version,omitempty"` // as the traces say
	GPUs   []gpuFacts `json:"gpus,omitempty"`
	CPUs   int        `json:"cpus"`
	OS     string     `json:"os"`
	Arch   string     `json:"arch"`
	// NVLinks is how many active NVLinks the first GPU has; null where the driver
	// does not say.
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

// look asks the management library of the GPUs that a server may use.
func look(open func() (nvml.API, error), gpus []GPU) *facts {
	f := &facts{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if len(gpus) == 0 {
		return f
	}
	api, err := open()
	if err != nil {
		return f
	}
	defer api.Close() //nolint:errcheck // nothing was changed
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
			w := int(p.Limit)
			one.PowerW = &w
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

// communication picks the variables that steer communication libraries, from the
// environment that a server inherits and from what its runtime sets. Others stay
// out of the facts: they may be secrets. NCCL_VERSION is no setting: images name
// the package there that they were built with, and the server may load another.
func communication(inherited []string, set map[string]string) map[string]string {
	out := map[string]string{}
	take := func(name, value string) {
		if strings.HasPrefix(name, "NCCL_") && name != "NCCL_VERSION" || strings.HasPrefix(name, "NVSHMEM_") {
			out[name] = value
		}
	}
	for _, kv := range inherited {
		name, value, _ := strings.Cut(kv, "=")
		take(name, value)
	}
	for name, value := range set {
		take(name, value)
	}
	return out
}
