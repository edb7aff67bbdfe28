package doctor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"text/template"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/dl"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/ops"
	"aicplan/sink/base/textutil"
)

// Library is a shared library as this program would load it.
type Library struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Path    string `json:"path,omitempty"`
	Error   string `json:"error,omitempty"`

	// Searched are the folders in which a library was not found, and the files that could not be loaded.
	Searched []string `json:"searched,omitempty"`
}

// missing records why the library cannot be used.
func (l *Library) missing(err error) {
	l.Error = err.Error()
	if nf, ok := errors.AsType[*dl.NotFoundError](err); ok {
		l.Error, l.Searched = nf.Brief(), slices.Clone(nf.Dirs)
		for _, a := range nf.Attempts {
			l.Searched = append(l.Searched, a.Path+": "+a.Err)
		}
	}
}

// GPU is the state of one device as reported by NVML. Readings that failed are null.
type GPU struct {
	nvml.Identity
	Clocks      *nvml.Clocks      `json:"clocks"`
	Reasons     *string           `json:"clock_reasons"`
	Temperature *nvml.Temperature `json:"temperature"`
	Power       *nvml.Power       `json:"power"`
	Memory      *nvml.Memory      `json:"memory"`
	Processes   []nvml.Process    `json:"processes,omitempty"`
	Persistence *bool             `json:"persistence"`
	ECC         *nvml.ECC         `json:"ecc"`
	MIG         *bool             `json:"mig"`

	// Unknown lists the readings that failed, with the reason.
	Unknown []string `json:"unknown,omitempty"`
}

// Deep is the result of the checks that run on a GPU.
type Deep struct {
	Device   string             `json:"device"`
	Numerics []ops.NumericCheck `json:"numerics"`
	Timing   ops.Timing         `json:"timing"`
	Error    string             `json:"error,omitempty"`
}

// Report describes the capabilities of this machine.
type Report struct {
	Driver    string    `json:"driver,omitempty"`
	CUDA      string    `json:"cuda,omitempty"`
	NVMLError string    `json:"nvml_error,omitempty"`
	GPUs      []GPU     `json:"gpus"`
	Libraries []Library `json:"libraries"`
	Findings  []Finding `json:"findings"`
	Deep      []Deep    `json:"deep,omitempty"`
}

// Examine examines the machine. It never fails; missing parts are listed in the report. gpu enables the numeric check
// and the timing self-check on each device.
func Examine(ctx context.Context, gpu bool) *Report {
	// The order must be set before the driver is opened. An error is ignored here, because opening a device
	// sets the order again and reports it.
	_ = ops.OrderByPCI()

	api, err := nvml.Open()
	n := &Node{NVML: api, NVMLErr: err, Folders: []string{"."}}
	if err == nil {
		n.Devices = nvml.Shown(api)
	}
	r := Overview(n, LocalLibraries())
	if gpu {
		for i := range max(visible(), 1) { // without a device, opening one returns the error to report
			r.Deep = append(r.Deep, one(ctx, i))
		}
	}
	return r
}

func processName(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// LocalLibraries opens the libraries that the runtimes use. It does not use a device.
func LocalLibraries() []Library {
	driver := 0
	find := func(name string, open func() (version, path string, err error)) Library {
		l := Library{Name: name}
		var err error
		if l.Version, l.Path, err = open(); err != nil {
			l.missing(err)
		}
		return l
	}

	return []Library{
		find("driver", func() (string, string, error) {
			l, err := cuda.OpenDriver()
			if err != nil {
				return "", "", err
			}
			driver, err = l.Version()
			return cuda.VersionText(driver), l.Path(), err
		}),
		find("cublaslt", func() (string, string, error) {
			l, err := cuda.LoadBLAS(driver)
			if err != nil {
				return "", "", err
			}
			return cuda.BLASVersionText(l.Version()), l.Path(), nil
		}),
		find("nvrtc", func() (string, string, error) {
			l, err := cuda.OpenCompiler(driver)
			if err != nil {
				return "", "", err
			}
			major, minor := l.Version()
			return fmt.Sprintf("%d.%d", major, minor), l.Path(), nil
		}),
		find("nccl", func() (string, string, error) {
			l, err := cuda.OpenNCCL()
			if err != nil {
				return "", "", err
			}
			v, err := l.Version()
			return cuda.NCCLVersionText(v), l.Path(), err
		}),
	}
}

// Overview reads the devices and runs all checks without changing settings.
func Overview(n *Node, libs []Library) *Report {
	r := &Report{Libraries: libs}
	if n.NVMLErr != nil {
		r.NVMLError = n.NVMLErr.Error()
	} else {
		if v, err := n.NVML.DriverVersion(); err == nil {
			r.Driver = v
		}
		if v, err := n.NVML.CUDAVersion(); err == nil {
			r.CUDA = cuda.VersionText(v)
		}
		devices, _ := n.devices()
		for _, d := range devices {
			r.GPUs = append(r.GPUs, readGPU(d))
		}
	}

	for _, c := range Checks() {
		if c.Name != "gpus" && !c.Host && len(r.GPUs) == 0 {
			continue
		}
		for _, f := range c.Run(n, nil) {
			if c.Advice && f.Result == Fail {
				f.Result = Warn
			}
			r.Findings = append(r.Findings, f)
		}
	}

	r.Findings = append(r.Findings, LibraryFindings(libs, "driver", "cublaslt", "nvrtc")...)
	return r
}

func readGPU(d nvml.Device) GPU {
	g := GPU{Identity: d.Identity()}
	if why := read(&g, "clock reasons", d.Reasons); why != nil {
		g.Reasons = new(why.String())
	}
	g.Clocks = read(&g, "clocks", d.Clocks)
	g.Temperature, g.Power = read(&g, "temperature", d.Temperature), read(&g, "power", d.Power)
	g.Memory = read(&g, "memory", d.Memory)
	if list := read(&g, "processes", d.Processes); list != nil {
		g.Processes = *list
	}
	g.Persistence, g.ECC = read(&g, "persistence", d.Persistence), read(&g, "ecc", d.ECC)
	g.MIG = read(&g, "mig", d.MIG)
	return g
}

// read returns a reading, or nil and records its error.
func read[T any](g *GPU, what string, get func() (T, error)) *T {
	v, err := get()
	if err != nil {
		g.Unknown = append(g.Unknown, what+": "+err.Error())
		return nil
	}
	return &v
}

// visible returns the number of devices that the driver shows to this process.
func visible() int {
	api, err := cuda.OpenDriver()
	if err != nil {
		return 0
	}

	n, err := api.Count()
	if err != nil {
		return 0
	}
	return n
}

// one runs the checks on one device.
func one(ctx context.Context, device int) (r Deep) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.Device = strconv.Itoa(device)
	d, err := ops.Open(ops.OpenOptions{Index: device})
	if err != nil {
		r.Error = err.Error()
		return r
	}
	defer d.Close()
	r.Device = fmt.Sprintf("%d: %s", device, d.Info.Name)

	if r.Numerics, err = d.CheckNumerics(ctx); err == nil {
		r.Timing, err = d.CheckTiming(ctx)
	}

	if err != nil {
		r.Error = err.Error()
	}

	return r
}

// OK reports whether no check failed.
func (r *Report) OK() bool {
	for _, f := range r.Findings {
		if f.Result == Fail {
			return false
		}
	}

	for _, d := range r.Deep {
		if d.Error != "" || len(d.Timing.Problems) > 0 {
			return false
		}
		for _, k := range d.Numerics {
			if k.Result == Fail {
				return false
			}
		}
	}

	return true
}

// LibraryFindings returns a finding for each library in need, which passes if the library could be opened.
func LibraryFindings(libs []Library, need ...string) []Finding {
	var out []Finding
	for _, want := range need {
		f := fail("", "this program knows no library %q; it knows %s", want, names(libs))
		for _, l := range libs {
			if l.Name != want {
				continue
			}
			f = pass("%s %s, %s", l.Name, l.Version, l.Path)
			if l.Error != "" {
				f = fail("", "%s", l.Error)
				if len(l.Searched) == 0 { // else the message names what to install
					f.Fix = "replace it, or name the folder of another one in AICPLAN_LIBRARY_PATH"
				}
			}
		}
		f.Check = "libraries"
		out = append(out, f)
	}

	return out
}

func names(libs []Library) string {
	var out []string
	for _, l := range libs {
		out = append(out, l.Name)
	}
	return strings.Join(out, ", ")
}

// Summary returns the outcome in one line.
func (r *Report) Summary() string {
	failed, warned := 0, 0
	for _, f := range r.Findings {
		switch f.Result {
		case Fail:
			failed++
		case Warn:
			warned++
		}
	}

	switch {
	case len(r.GPUs) == 0:
		return "No GPU can be measured on this machine."
	case !r.OK():
		return fmt.Sprintf("The GPUs (%d) cannot be measured as they are: %s failed, %s.", len(r.GPUs),
			textutil.Counted(failed, "check"), textutil.Counted(warned, "warning"))
	}
	return fmt.Sprintf("The GPUs (%d) can be measured: %s.", len(r.GPUs), textutil.Counted(warned, "warning"))
}

//go:embed report.txt
var reportText string

// Text writes the details of the report as text for people. If verbose is set, it lists the places where
// missing libraries were searched.
func (r *Report) Text(w io.Writer, verbose bool) error {
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	err := textutil.Fill(aligned, reportText, r, template.FuncMap{
		"verbose": func() bool { return verbose },
		"gib":     func(bytes int64) float64 { return float64(bytes) / (1 << 30) },
		"mode":    func(on bool) string { return map[bool]string{false: "off", true: "on"}[on] },
		"found": func(message string) bool {
			return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Message == message })
		},
	})
	if err != nil {
		return err
	}
	return aligned.Flush()
}
