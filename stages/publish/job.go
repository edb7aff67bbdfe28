package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// ErrNothing is returned if no export has ended.
var ErrNothing = errors.New("no export has ended yet")

// commitPlan is the content of one commit.
type commitPlan struct {
	files   []file
	subject string
	body    string
	missing []string // exports that have not ended
}

// prepare collects the files of the exports that have ended.
func (c *Config) prepare(rc *stage.RunContext) (*commitPlan, error) {
	artifacts, missing := c.artifacts(rc)
	if len(missing) == len(c.exports) {
		return nil, ErrNothing
	}

	files, err := c.files(rc.OutDir, artifacts)
	if err != nil {
		return nil, err
	}

	body, err := c.body(artifacts)
	if err != nil {
		return nil, err
	}

	subject := strings.Join(strings.Fields(c.Message), " ")
	if subject == "" {
		subject = fmt.Sprintf("add perf data (%s)", textutil.Counted(len(files), "file"))
	}
	return &commitPlan{files: files, subject: subject, body: body, missing: missing}, nil
}

// Exports are the addresses of the exports, and of the report.
func (c *Config) Exports() []string {
	var out []string
	for _, r := range c.exports {
		out = append(out, r.Address)
	}

	if c.report != nil {
		out = append(out, c.report.Address)
	}
	return out
}

// Preview prints what Ended would commit and push. It changes nothing.
func (c *Config) Preview(ctx context.Context, w io.Writer, rc *stage.RunContext) error {
	p, err := c.prepare(rc)
	if err != nil {
		return err
	}

	r := c.open(rc)
	if r.check(ctx); r.err != nil {
		return r.err
	}

	fmt.Fprintf(w, "commit on %s of %s: %s\n", c.Branch, r.dir, p.subject)

	for _, f := range p.files {
		fmt.Fprintf(w, "  %s\n", f.to)
	}

	for _, address := range p.missing {
		fmt.Fprintf(w, "not included: %s has not ended\n", address)
	}

	if c.Push {
		fmt.Fprintf(w, "push to %s\n", c.Remote)
	}

	if c.Draft != nil {
		fmt.Fprintf(w, "draft pull request to %s: %s\n", c.Draft.Repository, c.Draft.Title)
	}

	_, err = fmt.Fprintf(w, "text in %s:\n\n%s", filepath.Join(rc.OutDir, bodyFile), p.body)
	return err
}
