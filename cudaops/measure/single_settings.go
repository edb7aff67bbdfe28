package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// The protocols.
const (
	// ProtocolAdaptive times blocks until they agree, in separate passes.
	ProtocolAdaptive = "adaptive"
	// ProtocolReference times as aiconfigurator's collectors do: 3 eager calls,
	// 3 replays, and one mean over 6 more.
	ProtocolReference = "reference"
)

// The operating points of a device whose power cap lowers its clock.
const (
	// PointSustained is the latency of a kernel that runs without end, at the clock that
	// the power cap leaves it.
	PointSustained = "sustained"
	// PointRecovered is the latency on a device after idle time or light work.
	PointRecovered = "recovered"
	// PointWarmed is the latency after a warm-up of the case itself. It is not a setting:
	// all rows with warmup_seconds have it.
	PointWarmed = "warmed"
)

// The ways to treat CUDA graphs.
const (
	GraphPrefer  = "prefer"  // capture; run eagerly if that fails
	GraphRequire = "require" // a case that cannot be captured fails
	GraphOff     = "off"     // always eager
)

// Settings are the choices of one measurement. They are part of what a row
// means: rows measured under other settings are other rows.
type Settings struct {
	Protocol string `json:"protocol"`
	// OperatingPoint is the state of the device that rows are taken in.
	OperatingPoint string `json:"operating_point,omitempty"`
	// MinSamples and MaxSamples bound the blocks of one pass.
	MinSamples int `json:"min_samples"`
	MaxSamples int `json:"max_samples"`
	// TargetRelStdev ends a pass early once its samples scatter no more than
	// this.
	TargetRelStdev float64 `json:"target_rel_stdev"`
	// MinBlockSeconds is how long a block must be for the timer's resolution not
	// to matter.
	MinBlockSeconds float64 `json:"min_block_seconds"`
	// MaxPassSeconds ends a pass that has its minimum of samples.
	MaxPassSeconds float64 `json:"max_pass_seconds"`
	// WarmupSeconds is spent on the case before every pass, at least one
	// execution.
	WarmupSeconds float64 `json:"warmup_seconds"`
	// Passes are separate visits to a case; MaxPasses allows more while their
	// medians differ by more than PassTolerance (max/min - 1).
	Passes        int     `json:"passes"`
	MaxPasses     int     `json:"max_passes"`
	PassTolerance float64 `json:"pass_tolerance"`
	// IdleGapSeconds is the pause before every pass, for a device whose power
	// cap remembers what ran before.
	IdleGapSeconds float64 `json:"idle_gap_seconds"`
	Graph          string  `json:"graph"`
	// Power adds the columns power and power_limit and runs every case for at
	// least PowerMinSeconds.
	Power           bool    `json:"power"`
	PowerMinSeconds float64 `json:"power_min_seconds"`
	// Seed fills operands and draws random orders.
	Seed int64 `json:"seed"`
}

// Defaults returns the settings of a plan without a measure block.
func Defaults() Settings {
	return Settings{
		Protocol:        ProtocolAdaptive,
		OperatingPoint:  PointSustained,
		MinSamples:      3,
		MaxSamples:      15,
		TargetRelStdev:  0.005,
		MinBlockSeconds: 60e-6,
		MaxPassSeconds:  0.25,
		WarmupSeconds:   0,
		Passes:          2,
		MaxPasses:       4,
		PassTolerance:   0.01,
		IdleGapSeconds:  0,
		Graph:           GraphPrefer,
		PowerMinSeconds: 1,
	}
}

// ReadSettings decodes and checks the settings of a measure block over the defaults.
func ReadSettings(raw []byte) (Settings, error) {
	s := Defaults()
	if len(raw) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return s, fmt.Errorf("measure settings: %w", err)
		}
	}

	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("measure settings: %w", err)
	}
	return s, nil
}

// Captures returns how often a session captures the graphs of a case: once for every
// planned visit of sustained rows. Recovered rows have one capture, because more would
// take longer than their visits.
func (s Settings) Captures() int {
	if s.Protocol == ProtocolReference || s.OperatingPoint != PointSustained {
		return 1
	}
	return s.Passes
}

// graphSeconds is how long a graph takes at least, where 64 executions take as long.
// On an H200 rows of such graphs repeat twice as well as those of graphs of five, and
// longer ones repeat no better: they only heat a device that is to stay recovered.
const graphSeconds = 100e-6

// GraphSeconds is how long the graphs of a case take at least; 0 for graphs of as
// many executions as the collectors' have.
func (s Settings) GraphSeconds() float64 {
	if s.Protocol == ProtocolReference {
		return 0
	}
	return graphSeconds
}

// Validate reports everything that is wrong with the settings, joined.
func (s Settings) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Protocol != ProtocolAdaptive && s.Protocol != ProtocolReference {
		bad("protocol is %q; it must be %q or %q", s.Protocol, ProtocolAdaptive, ProtocolReference)
	}
	if s.OperatingPoint != PointSustained && s.OperatingPoint != PointRecovered {
		bad("operating_point is %q; it must be %q or %q", s.OperatingPoint, PointSustained, PointRecovered)
	}
	if s.OperatingPoint == PointRecovered && s.WarmupSeconds > 0 {
		bad(
			"operating_point is %q and warmup_seconds is %v: a device that runs a case for a while has not recovered; leave "+
				"one of them out",
			s.OperatingPoint,
			s.WarmupSeconds,
		)
	}
	if s.Graph != GraphPrefer && s.Graph != GraphRequire && s.Graph != GraphOff {
		bad("graph is %q; it must be %q, %q or %q", s.Graph, GraphPrefer, GraphRequire, GraphOff)
	}
	if s.MinSamples < 1 {
		bad("min_samples is %d; it must be at least 1", s.MinSamples)
	}
	if s.MaxSamples < s.MinSamples {
		bad("max_samples is %d, less than min_samples (%d)", s.MaxSamples, s.MinSamples)
	}
	if s.Passes < 1 {
		bad("passes is %d; it must be at least 1", s.Passes)
	}
	if s.MaxPasses < s.Passes {
		bad("max_passes is %d, less than passes (%d)", s.MaxPasses, s.Passes)
	}
	for _, f := range []struct {
		name string
		v    float64
		zero bool // 0 is allowed
	}{
		{"target_rel_stdev", s.TargetRelStdev, true},
		{"min_block_seconds", s.MinBlockSeconds, false},
		{"max_pass_seconds", s.MaxPassSeconds, false},
		{"warmup_seconds", s.WarmupSeconds, true},
		{"pass_tolerance", s.PassTolerance, true},
		{"idle_gap_seconds", s.IdleGapSeconds, true},
		{"power_min_seconds", s.PowerMinSeconds, !s.Power},
	} {
		switch {
		case math.IsNaN(f.v) || math.IsInf(f.v, 0) || f.v < 0:
			bad("%s is %v; it must be a finite number, not negative", f.name, f.v)
		case f.v == 0 && !f.zero:
			bad("%s is 0; it must be greater", f.name)
		}
	}
	for _, f := range []struct {
		name string
		v    float64
	}{{"target_rel_stdev", s.TargetRelStdev}, {"pass_tolerance", s.PassTolerance}} {
		if f.v >= 1 {
			bad("%s is %v; it is a share below 1: 0.05 is 5 %%", f.name, f.v)
		}
	}
	return errors.Join(errs...)
}

// seconds turns a setting into a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// SettingNames are the names of the settings, as measure blocks and workers
// have them, in the order of the struct.
func SettingNames() []string {
	var out []string
	for t, i := reflect.TypeFor[Settings](), 0; i < t.NumField(); i++ {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}
