package doctor

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"aicplan/sink/base/textutil"
)

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

// Text writes the details of the report as text for people. If verbose is set, it lists the places where
// missing libraries were searched.
func (r *Report) Text(w io.Writer, verbose bool) error {
	if r.Driver != "" {
		fmt.Fprintf(w, "driver %s, CUDA %s\n", r.Driver, r.CUDA)
	}

	if r.NVMLError != "" {
		fmt.Fprintf(w, "management library: %s\n", r.NVMLError)
	}

	for _, g := range r.GPUs {
		fmt.Fprintf(w, "\nGPU %d: %s, %.0f GiB, %s, %s\n", g.Index, g.Name, float64(g.Memory.Total)/(1<<30), g.PCI,
			g.UUID)
		fmt.Fprintf(w, "  clocks      SM %d of %d MHz, memory %d of %d MHz; reasons: %s\n", g.Clocks.SM,
			g.Clocks.MaxSM, g.Clocks.Memory, g.Clocks.MaxMem, g.Reasons)
		fmt.Fprintf(w, "  power       %.0f W (1 s mean %.0f W) of %.0f W; %d C\n", g.Power.Instant, g.Power.Average,
			g.Power.Limit, g.Temperature.GPU)
		fmt.Fprintf(w, "  memory      %.1f GiB free\n", float64(g.Memory.Free)/(1<<30))
		fmt.Fprintf(w, "  modes       persistence %s, ECC %s, MIG %s\n", onOff(g.Persistence), onOff(g.ECC.Enabled),
			onOff(g.MIG))
		for _, p := range g.Processes {
			fmt.Fprintf(w, "  process     %d, %.1f GiB\n", p.PID, float64(p.Memory)/(1<<30))
		}
		for _, u := range g.Unknown {
			fmt.Fprintf(w, "  unknown     %s\n", u)
		}
	}

	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range r.Libraries {
		if l.Error != "" {
			why := l.Error
			if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Message == why }) {
				why = "" // reported below
			}
			fmt.Fprintf(t, "%s\tmissing\t%s\n", l.Name, why)
			for _, place := range l.Searched {
				if verbose {
					fmt.Fprintf(t, "\t\tsearched %s\n", place)
				}
			}
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", l.Name, l.Version, l.Path)
	}

	fmt.Fprintln(t)
	for _, f := range r.Findings {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Result, f.Check, f.Device, f.Message)
		if f.Result != Pass && f.Fix != "" {
			fmt.Fprintf(t, "\t\t\t%s\n", f.Fix)
		}
	}

	if err := t.Flush(); err != nil {
		return err
	}

	for _, d := range r.Deep {
		if err := d.text(w); err != nil {
			return err
		}
	}

	return nil
}

func (d Deep) text(w io.Writer) error {
	fmt.Fprintf(w, "\nGPU %s, numeric checks against float64\n", d.Device)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)

	for _, k := range d.Numerics {
		if k.Message != "" {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", k.Result, k.Case, k.Message)
			continue
		}
		fmt.Fprintf(t, "  %s\t%s\trelative error %.2g of %.2g, %d samples\n", k.Result, k.Case, k.Dev.Relative,
			k.Dev.Tolerance, k.Dev.Samples)
	}

	if err := t.Flush(); err != nil {
		return err
	}

	if d.Error != "" {
		fmt.Fprintf(w, "  error: %s\n", d.Error)
		return nil
	}

	m := d.Timing
	fmt.Fprintf(w, "timing\n")
	fmt.Fprintf(w, "  events      steps of %.0f ns\n", m.EventStepNS)
	fmt.Fprintf(w, "  SM clock    %.0f MHz with nothing running; spinning %.0f MHz by events, %.0f MHz by stamps\n",
		m.ReadyMHz, m.SpinMHz, m.StampMHz)
	fmt.Fprintf(w, "  copy        %.0f GB/s read and written\n", m.CopyGBps)
	if m.GemmTFLOPs > 0 {
		fmt.Fprintf(w, "  bf16 gemm   %.0f TFLOP/s at %.0f MHz\n", m.GemmTFLOPs, m.GemmMHz)
	}

	for _, p := range m.Problems {
		fmt.Fprintf(w, "  fail        %s\n", p)
	}

	return nil
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
