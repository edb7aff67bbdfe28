package collect

import (
	"encoding/json"
	"fmt"

	"aicplan/cudaops/measure"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
	"aicplan/stages/runtimes"
)

// historySample is the maximum number of entries that an estimate reads.
const historySample = 2000

// took contains wall times of cases in seconds.
type took struct {
	all []float64
	// first are the cases that were the first of a process; later are the others.
	first, later []float64
}

// typical returns the median duration of a case in seconds, and how much longer the first case of a
// process takes. start is 0 if it is less than a second or unknown.
func (t *took) typical() (median, start float64) {
	if len(t.first) > 0 && len(t.later) > 0 {
		median = measure.Median(t.later)
		if start = measure.Median(t.first) - median; start >= 1 {
			return median, start
		}
	}
	return measure.Median(t.all), 0
}

// history reads the wall times of earlier cases from a journal.
func history(journal *checkpoint.Journal) (out took, err error) {
	n := 0
	for e, err := range journal.All() {
		if err != nil {
			return took{}, err
		}
		if n++; n > historySample {
			break
		}
		if e.Kind != checkpoint.Measured {
			continue
		}

		d, err := rows.Decode(e)
		if err != nil {
			return took{}, err
		}

		if d.Seconds <= 0 {
			continue
		}

		out.all = append(out.all, d.Seconds)
		if d.First {
			out.first = append(out.first, d.Seconds)
		} else {
			out.later = append(out.later, d.Seconds)
		}
	}

	return out, nil
}

// opHistory returns the wall times of earlier cases of an op, in this environment or in the most similar
// one. where is appended to the name of the op in messages and identifies the source. If alike is true,
// other contexts are also searched, and those with measurement settings that change the duration are
// skipped.
func (c *Config) opHistory(store *checkpoint.Store, spec *grid.Spec, env *runtimes.Environment,
	alike bool) (secs took, where string, err error) {
	var other []checkpoint.ContextInfo
	op := spec.Op
	if env != nil {
		journal, jc, err := c.journal(store, spec, env)
		if err != nil {
			return took{}, "", err
		}

		if secs, err = history(journal); err != nil || len(secs.all) > 0 {
			return secs, "", err
		}

		near, _, err := store.Nearest(jc)
		if err != nil {
			return took{}, "", err
		}

		if near != nil {
			other = append(other, *near)
		}
	}

	if env == nil || alike {
		all, err := store.Contexts(op)
		if err != nil {
			return took{}, "", err
		}
		other = append(other, all...)
	}

	for _, info := range other {
		var jc checkpoint.Context
		if err := json.Unmarshal(info.JSON, &jc); err != nil {
			return took{}, "", fmt.Errorf("journal of %s: %w", op, err)
		}
		if !c.comparable(jc) {
			continue
		}

		if alike {
			if same, err := c.measuresLike(&info); err != nil {
				return took{}, "", err
			} else if !same {
				continue
			}
		}

		journal, err := store.Journal(jc)
		if err != nil {
			return took{}, "", err
		}

		if secs, err = history(journal); err != nil || len(secs.all) > 0 {
			return secs, " under other conditions", err
		}
	}

	return took{}, "", nil
}

// measuresLike reports whether the cases of a context were measured with the same code and with the same
// settings that affect the duration of a case.
func (c *Config) measuresLike(info *checkpoint.ContextInfo) (bool, error) {
	var jc struct {
		Measure measure.Settings `json:"measure"`
		Extra   struct {
			Instrument int `json:"instrument"`
		} `json:"extra"`
	}

	if err := json.Unmarshal(info.JSON, &jc); err != nil {
		return false, fmt.Errorf("journal of %s: %w", info.Op, err)
	}
	if jc.Extra.Instrument != c.about().Instrument {
		return false, nil
	}

	want, ok := c.measured().(measure.Settings)
	return !ok || costs(jc.Measure) == costs(want), nil
}

// costs returns s reduced to the settings that affect the duration of a case, which are those that kinds
// use in CaseSeconds. The reference protocol uses only few of them.
func costs(s measure.Settings) measure.Settings {
	of := measure.Settings{Protocol: s.Protocol, OperatingPoint: s.OperatingPoint, WarmupSeconds: s.WarmupSeconds,
		Power: s.Power}
	if s.Power {
		of.PowerMinSeconds = s.PowerMinSeconds
	}
	if s.Protocol != measure.ProtocolReference {
		of.Passes, of.MinSamples, of.MinBlockSeconds, of.IdleGapSeconds = s.Passes, s.MinSamples,
			s.MinBlockSeconds, s.IdleGapSeconds
	}
	return of
}

// comparable reports whether cases of a context may take about as long as here. Times of another runtime
// kind or framework are not comparable.
func (c *Config) comparable(jc checkpoint.Context) bool {
	return jc.Runtime == c.runtime.Kind &&
		(jc.Framework == "" || c.runtime.Framework == "" || jc.Framework == c.runtime.Framework)
}

// fromHistory estimates the remaining time from earlier cases. See opHistory for alike.
func (c *Config) fromHistory(store *checkpoint.Store, spec *grid.Spec, env *runtimes.Environment,
	counts *stage.CaseCounts, alike bool) error {
	secs, where, err := c.opHistory(store, spec, env, alike)
	if err != nil || len(secs.all) == 0 {
		return err
	}

	workers := c.workers(env)
	median, start := secs.typical()
	counts.Seconds = median*float64(counts.Collect)/float64(workers) + start
	counts.Basis = fmt.Sprintf("median of %d earlier cases of %s%s: %.3g s", len(secs.all), spec.Op, where, median)
	if workers > 1 {
		counts.Basis += fmt.Sprintf(", %d workers", workers)
	}

	if start > 0 {
		counts.Basis += fmt.Sprintf(", and %.3g s more for the first one of each worker", start)
	}

	return nil
}
