// Package telemetry implements the block "telemetry", which monitors GPUs during a collect that refers to it. The
// readings in the window of a case become columns of its rows. Telemetry is part of no key: rows that were measured
// without it remain valid, and their columns are null.
package telemetry

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/telemetry"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// Kind registers the block.
func Kind() stage.ServiceKind {
	return stage.ServiceKind{
		Name:    "telemetry",
		Summary: "monitors GPUs during a collect: DCGM exporters and NVML",
		Options: []stage.Option{
			{Name: "endpoints", Type: cty.List(cty.String), Doc: "DCGM exporters, as HOST:PORT or URL"},
			{Name: "defaults", Type: cty.Bool, Default: "true", Doc: "also try localhost:9400 and localhost:9401"},
			{Name: "nvml", Type: cty.Bool, Default: "true", Doc: "read the GPUs of this machine through the driver"},
			{Name: "interval", Type: cty.String, Default: `"333ms"`, Doc: "time between two scrapes of a source, 10ms to 300s"},
			{Name: "timeout", Type: cty.String, Default: "2s or six intervals, whichever is longer",
				Doc: "maximum time of a scrape, 10ms to 300s"},
			{
				Name: "counters",
				Type: cty.String,
				Doc:  "a counter file of the exporter, relative to the plan: FIELD, gauge or counter, help text",
			},
			{Name: "required", Type: cty.Bool, Default: "false",
				Doc: "fail the collect if no source reports a GPU"},
		},
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
	c := &Config{Address: s.Address, nvml: true, options: telemetry.Options{Set: telemetry.Builtin()}}
	tried := telemetry.DefaultEndpoints

	for name, v := range s.Options {
		if !v.IsWhollyKnown() {
			return nil, fmt.Errorf("%s of %s is only known after another stage has run; give a value that is known before",
				name, s.Address)
		}
	}

	if v, ok := s.Options["nvml"]; ok {
		c.nvml = v.True()
	}

	if v, ok := s.Options["required"]; ok {
		c.Required = v.True()
	}

	if v, ok := s.Options["defaults"]; ok && v.False() {
		tried = nil
	}

	for name, to := range map[string]*time.Duration{"interval": &c.options.Interval, "timeout": &c.options.Timeout} {
		v, ok := s.Options[name]
		if !ok {
			continue
		}

		d, err := time.ParseDuration(v.AsString())
		if err != nil || d < telemetry.MinInterval || d > telemetry.MaxInterval {
			return nil, fmt.Errorf("%s is %q; it must be a time between %s and %s, such as \"333ms\"",
				name, v.AsString(), telemetry.MinInterval, telemetry.MaxInterval)
		}
		*to = d
	}

	var named []string
	if v, ok := s.Options["endpoints"]; ok {
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			if e.IsNull() {
				continue
			}
			named = append(named, e.AsString())
		}
	}

	var err error
	if c.defaults, err = telemetry.Endpoints(tried); err != nil {
		return nil, err
	}

	all, err := telemetry.Endpoints(c.defaults, named)
	if err != nil {
		return nil, err
	}

	c.endpoints = all[len(c.defaults):]
	if v, ok := s.Options["counters"]; ok {
		path := v.AsString()
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}

		f, err := fileutil.Open(path)
		if err != nil {
			return nil, fmt.Errorf("counters: %w", err)
		}
		defer f.Close()

		if err := c.options.Set.AddCSV(f, v.AsString()); err != nil {
			return nil, err
		}
	}

	return c, nil
}
