package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"aicplan/cudaops/comm"
	"aicplan/cudaops/load"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/stages/runtimes"
)

type workerCmd struct {
	FDIn  int `name:"fd-in" default:"-1" least:"-1"`
	FDOut int `name:"fd-out" default:"-1" least:"-1"`
}

// Run serves the worker protocol, on the descriptors from the environment or, with a launcher, on
// standard input and output.
func (c *workerCmd) Run(a *app) error {
	host := runtimes.HostOf(a.kinds)
	switch {
	case c.FDIn < 0 && c.FDOut < 0:
		return worker.Serve(context.Background(), host)
	case c.FDIn == 0 && c.FDOut == 1:
		return worker.ServeStandard(context.Background(), host)
	}
	return fmt.Errorf("--fd-in %d --fd-out %d: behind a launcher a worker speaks on 0 and 1", c.FDIn, c.FDOut)
}

type generatorCmd struct{}

// Run is a further generator of a load. It speaks on standard input and output.
func (c *generatorCmd) Run(a *app) error {
	return load.Generator(context.Background(), os.Stdin, os.Stdout)
}

type workerRankCmd struct{}

// Run is one rank of a communicator. Each rank is a separate process.
func (c *workerRankCmd) Run(a *app) error {
	a.code = comm.RankMain()
	return nil
}

// runLog writes the program's log to the run folder at debug level and to standard error at the level of
// --log-level. The returned function closes the file.
func (a *app) runLog(dir string) (hclog.Logger, func(), error) {
	path := filepath.Join(dir, "aicplan.log")
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, fileutil.Explain("write", path, err)
	}
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "aicplan", Level: hclog.Debug,
		Output: &textutil.Writer{W: f, Secrets: a.secrets}})
	log.RegisterSink(hclog.NewSinkAdapter(&hclog.LoggerOptions{
		Level: hclog.LevelFromString(a.global.LogLevel), Output: a.stderr,
	}))
	return log, func() { _ = f.Close() }, nil // results are stored elsewhere
}
