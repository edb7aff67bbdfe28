// Package live follows a run by the events that it writes. The run does not need to
// know its readers: every process that can read the state folder, on this host or on
// another one, sees the same state.
package live

import (
	"time"

	"aicplan/engine/stage"
)

// Words for the state of a stage that [stage.Status] does not have.
const (
	Waiting = "waiting"
	Running = "running"
)

// Silent is the time without a sign of life after which a run that has not ended
// counts as lost: it was killed, or its machine is gone or hangs.
const Silent = 100 * time.Second

// Limits of what is kept in memory of a run of any length.
const (
	maxMessages = 60
	maxGroups   = 60
	maxSamples  = 120 // of each worker
	maxRates    = 90  // of each stage
)

// State is a run as its events describe it so far.
type State struct {
	Run     string    `json:"run"`
	Plan    string    `json:"plan"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen"` // last sign of life
	Ended   bool      `json:"ended"`
	// Gone is true of a run whose process was seen to be dead before it ended.
	Gone     bool    `json:"gone,omitempty"`
	ExitCode *int    `json:"exit_code"` // null while it runs
	Seconds  float64 `json:"seconds"`

	Stages   []*Stage   `json:"stages"`
	Failures []*Failure `json:"failures"`
	Messages []Message  `json:"messages"`
	Workers  []*Worker  `json:"workers"`
	// Version counts changes.
	Version int `json:"version"`

	byAddress map[string]*Stage
	byGroup   map[string]*Failure
	byWorker  map[string]*Worker
}

// Stage is a stage of the plan.
type Stage struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	// Measures is true of stages that work through cases.
	Measures bool         `json:"measures,omitempty"`
	After    []string     `json:"after"`
	Action   string       `json:"action,omitempty"` // as planned
	Status   string       `json:"status"`
	Reused   bool         `json:"reused"`
	Reason   string       `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	Started  *time.Time   `json:"started"`
	Seconds  *float64     `json:"seconds"` // of an ended one
	Done     int          `json:"done"`
	Failed   int          `json:"failed"`
	Skipped  int          `json:"skipped"`
	Total    int          `json:"total"` // 0: no cases, or not known yet
	Before   int          `json:"before"`
	Counts   stage.Counts `json:"counts"`
	// Rate is in cases a second over the last minute in which some ended; null before
	// there is one.
	Rate *float64 `json:"rate"`
	// Left is the estimated remaining time in seconds, from the rate. It is null if the
	// number of cases is unknown.
	Left *float64 `json:"left_seconds"`
	// Rates are cases a second over time.
	Rates []Point `json:"rates,omitempty"`

	history []progress
}

type progress struct {
	at    time.Time
	ended int
}

// Point is a value at a time.
type Point struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

// Failure is a group of failed cases that look alike.
type Failure struct {
	Stage   string    `json:"stage"`
	Op      string    `json:"op"`
	Class   string    `json:"class"`
	Message string    `json:"message"`
	Count   int       `json:"count"`
	Example string    `json:"example"` // parameters of the last one
	Last    time.Time `json:"last"`
}

// Message is a line that the user was shown.
type Message struct {
	At    time.Time `json:"at"`
	Stage string    `json:"stage"`
	Level string    `json:"level"`
	Text  string    `json:"text"`
}

// Worker is a worker with samples of what it measured.
type Worker struct {
	Stage  string `json:"stage"`
	Name   string `json:"worker"`
	Device string `json:"device_uuid,omitempty"`
	// Cases is the number of ended cases.
	Cases int `json:"cases,omitempty"`
	// Rate is in cases a second between the last two samples; null before there
	// are two.
	Rate    *float64 `json:"rate"`
	Samples []Sample `json:"samples"`
}

// Sample is one measured case, taken every few seconds of a worker. Metrics are
// by column; what the row lacks is not there.
type Sample struct {
	At      time.Time          `json:"at"`
	Cases   int                `json:"cases,omitempty"` // on its worker
	Params  string             `json:"params"`
	Metrics map[string]float64 `json:"metrics"`
}

func newState(run string) *State {
	return &State{Run: run, Stages: []*Stage{}, Failures: []*Failure{}, Messages: []Message{}, Workers: []*Worker{},
		byAddress: map[string]*Stage{}, byGroup: map[string]*Failure{}, byWorker: map[string]*Worker{}}
}

// Alive reports whether the run is still active, as far as its events show at the given
// time.
func (s *State) Alive(now time.Time) bool { return !s.Ended && !s.Gone && now.Sub(s.Seen) < Silent }

// Word is the state of the run in one word.
func (s *State) Word(now time.Time) string {
	switch {
	case s.Ended && s.ExitCode != nil && *s.ExitCode == 0 && s.Count()[string(stage.StatusInterrupted)] > 0:
		return "detached" // its jobs continue
	case s.Ended && s.ExitCode != nil && *s.ExitCode == 0:
		return "done"
	case s.Ended:
		return "ended"
	case s.Alive(now):
		return Running
	}

	return "lost"
}

// Totals adds up the cases of the stages that measure. Repeats of a verify are not cases.
func (s *State) Totals() (done, failed, skipped, total int) {
	for _, st := range s.Stages {
		if st.Measures {
			done, failed, skipped, total = done+st.Done, failed+st.Failed, skipped+st.Skipped, total+st.Total
		}
	}
	return done, failed, skipped, total
}

// Count counts stages by status.
func (s *State) Count() map[string]int {
	n := map[string]int{}
	for _, st := range s.Stages {
		n[st.Status]++
	}
	return n
}

func (s *State) stage(address, kind string) *Stage {
	st := s.byAddress[address]
	if st == nil {
		st = &Stage{Address: address, Kind: kind, Status: Waiting, After: []string{}}
		s.byAddress[address] = st
		s.Stages = append(s.Stages, st)
	}

	if st.Kind == "" {
		st.Kind = kind
	}
	return st
}

// progress takes a stage's counts at a moment and works out its rate.
func (st *Stage) progress(at time.Time, done, failed, skipped, total, before int) {
	st.Done, st.Failed, st.Skipped, st.Total, st.Before = done, failed, skipped, total, before
	ended := done + failed + skipped

	n := len(st.history)
	switch {
	case n > 0 && ended < st.history[n-1].ended: // it was restarted
		st.history, st.Rate, st.Left = st.history[:0], nil, nil
		fallthrough
	case n == 0 || ended > st.history[n-1].ended:
		st.history = append(st.history, progress{at, ended})
	}

	for len(st.history) > 2 && at.Sub(st.history[1].at) > time.Minute {
		st.history = st.history[1:]
	}

	st.estimate(at)
}

// estimate computes the rate at the given time and the remaining time. If no case has ended
// for longer than the interval of the rate, the rate falls, so that a stage that hangs does
// not seem to end soon.
func (st *Stage) estimate(at time.Time) {
	if len(st.history) < 2 {
		return
	}

	first, last := st.history[0], st.history[len(st.history)-1]
	span := max(last.at.Sub(first.at), at.Sub(last.at)).Seconds()
	if span < 0.5 {
		return
	}

	rate := float64(last.ended-first.ended) / span
	st.Rate, st.Left = &rate, nil
	if st.Total >= last.ended {
		left := float64(st.Total-last.ended) / rate
		st.Left = &left
	}

	if n := len(st.Rates); n == 0 || at.Sub(st.Rates[n-1].At) >= 2*time.Second {
		st.Rates = append(st.Rates, Point{at, rate})
	}

	if len(st.Rates) > maxRates {
		st.Rates = thin(st.Rates)
	}
}

// thin drops every second value of the older half, so that a night keeps its
// shape in bounded room.
func thin[T any](in []T) []T {
	half := len(in) / 2
	var out []T
	for i := 0; i < half; i += 2 {
		out = append(out, in[i])
	}
	return append(out, in[half:]...)
}
