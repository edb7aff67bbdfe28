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
		Options: runtimes.Options(new(Config).attributes()),
	}
}

func (c *Config) attributes() []worker.Option {
	return []worker.Option{
		{Name: "endpoints", Into: &c.endpoints, Doc: "DCGM exporters, as HOST:PORT or URL"},
		{Name: "defaults", Into: &c.tried, Default: true, Doc: "also try localhost:9400 and localhost:9401"},
		{Name: "nvml", Into: &c.nvml, Default: true, Doc: "read the GPUs of this machine through the driver"},
		{Name: "interval", Into: (*worker.Duration)(&c.options.Interval), Default: worker.Duration(telemetry.DefaultInterval),
			Doc: "time between two scrapes of a source, 10ms to 300s"},
		{Name: "timeout", Into: (*worker.Duration)(&c.options.Timeout),
			DefaultDoc: "2s or six intervals, whichever is longer", Doc: "maximum time of a scrape, 10ms to 300s"},
		{Name: "counters", Into: &c.counters,
			Doc: "a counter file of the exporter, relative to the plan: FIELD, gauge or counter, help text"},
		{Name: "required", Into: &c.Required, Default: false, Doc: "fail the collect if no source reports a GPU"},
	}
}

// Config is a telemetry block.
type Config struct {
	Address  string
	Required bool

	endpoints []string // of the user; once parsed, the default ones and then those of the user, normalised
	tried     bool     // whether the default endpoints are tried
	defaults  int      // number of default endpoints
	nvml      bool
	counters  string
	options   telemetry.Options
}

// Parse reads the block of s and its counter file. Errors name the option.
func Parse(s *stage.Service) (*Config, error) {
	c := &Config{Address: s.Address, options: telemetry.Options{Set: telemetry.Builtin()}}
	if err := runtimes.Decode(s, c.attributes()); err != nil {
		return nil, err
	}

	for name, d := range map[string]time.Duration{"interval": c.options.Interval, "timeout": c.options.Timeout} {
		if d != 0 && (d < telemetry.MinInterval || d > telemetry.MaxInterval) {
			return nil, fmt.Errorf("%s is \"%s\"; it must be a time between %s and %s, such as \"333ms\"",
				name, d, telemetry.MinInterval, telemetry.MaxInterval)
		}
	}

	tried := telemetry.DefaultEndpoints
	if !c.tried {
		tried = nil
	}

	var err error
	if c.endpoints, err = telemetry.Endpoints(tried, c.endpoints); err != nil {
		return nil, err
	}

	c.defaults = len(tried)
	if path := c.counters; path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}

		f, err := fileutil.Open(path)
		if err != nil {
			return nil, fmt.Errorf("counters: %w", err)
		}
		defer f.Close()

		if err := c.options.Set.AddCSV(f, c.counters); err != nil {
			return nil, err
		}
	}

	return c, nil
}
