// Package telemetry implements the block "telemetry", which monitors GPUs during a collect that refers to it. The
// readings in the window of a case become columns of its rows. Telemetry is part of no key: rows that were measured
// without it remain valid, and their columns are null.
package telemetry

import (
	"fmt"
	"path/filepath"
	"time"

	"aicplan/cudaops/telemetry"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/stages/runtimes"
)

// Kind registers the block.
func Kind() stage.ServiceKind {
	return stage.ServiceKind{
		Name:    "telemetry",
		Summary: "monitors GPUs during a collect: DCGM exporters and NVML",
		Options: runtimes.Options(new(attributes).options()),
	}
}

// attributes is the content of a telemetry block.
type attributes struct {
	endpoints                []string
	defaults, nvml, required bool
	interval, timeout        worker.Duration
	counters                 string
}

func (b *attributes) options() []worker.Option {
	return []worker.Option{
		{Name: "endpoints", Into: &b.endpoints, Doc: "DCGM exporters, as HOST:PORT or URL"},
		{Name: "defaults", Into: &b.defaults, Default: true, Doc: "also try localhost:9400 and localhost:9401"},
		{Name: "nvml", Into: &b.nvml, Default: true, Doc: "read the GPUs of this machine through the driver"},
		{Name: "interval", Into: &b.interval, Default: worker.Duration(telemetry.DefaultInterval),
			Doc: "time between two scrapes of a source, 10ms to 300s"},
		{Name: "timeout", Into: &b.timeout, DefaultDoc: "2s or six intervals, whichever is longer",
			Doc: "maximum time of a scrape, 10ms to 300s"},
		{Name: "counters", Into: &b.counters,
			Doc: "a counter file of the exporter, relative to the plan: FIELD, gauge or counter, help text"},
		{Name: "required", Into: &b.required, Default: false, Doc: "fail the collect if no source reports a GPU"},
	}
}

// Config is a telemetry block.
type Config struct {
	Address  string
	Required bool

	endpoints []string // normalised, those named by the user
	defaults  []string
	nvml      bool
	options   telemetry.Options
}

// Parse reads the block of s and its counter file. Errors name the option.
func Parse(s *stage.Service) (*Config, error) {
	var b attributes
	if err := runtimes.Decode(s, b.options()); err != nil {
		return nil, err
	}

	c := &Config{Address: s.Address, Required: b.required, nvml: b.nvml, options: telemetry.Options{
		Set: telemetry.Builtin(), Interval: time.Duration(b.interval), Timeout: time.Duration(b.timeout)}}
	for name, d := range map[string]time.Duration{"interval": c.options.Interval, "timeout": c.options.Timeout} {
		if d != 0 && (d < telemetry.MinInterval || d > telemetry.MaxInterval) {
			return nil, fmt.Errorf("%s is \"%s\"; it must be a time between %s and %s, such as \"333ms\"",
				name, d, telemetry.MinInterval, telemetry.MaxInterval)
		}
	}

	tried := telemetry.DefaultEndpoints
	if !b.defaults {
		tried = nil
	}

	var err error
	if c.defaults, err = telemetry.Endpoints(tried); err != nil {
		return nil, err
	}

	all, err := telemetry.Endpoints(c.defaults, b.endpoints)
	if err != nil {
		return nil, err
	}

	c.endpoints = all[len(c.defaults):]
	if path := b.counters; path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}

		f, err := fileutil.Open(path)
		if err != nil {
			return nil, fmt.Errorf("counters: %w", err)
		}
		defer f.Close()

		if err := c.options.Set.AddCSV(f, b.counters); err != nil {
			return nil, err
		}
	}

	return c, nil
}
