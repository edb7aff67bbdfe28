package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/rogpeppe/go-internal/diff"

	"aicplan/engine/config"
	"aicplan/engine/run"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

type fmtCmd struct {
	Paths []string `arg:"" optional:"" help:"Files or folders; - reads standard input. Default: this folder."`
	Check bool     `help:"Change nothing; exit 3 if a file would change."`
	Diff  bool     `help:"Print the differences."`
}

// Run formats files in place and prints the names of those that changed.
func (c *fmtCmd) Run(a *app) error {
	paths := c.Paths
	if len(paths) == 0 {
		paths = []string{"."}
	}

	if len(paths) == 1 && paths[0] == "-" {
		return c.stdin(a)
	}

	changed := 0
	for _, p := range paths {
		files, err := fileutil.Below(p, ".hcl")
		if err != nil {
			return err
		}

		for _, f := range files {
			did, err := c.file(a, f)
			if err != nil {
				return err
			}
			if did {
				changed++
			}
		}
	}

	return exitIf(c.Check && changed > 0, run.ExitPartial)
}

func (c *fmtCmd) stdin(a *app) error {
	src, err := io.ReadAll(a.stdin)
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}

	out, err := a.format(src, "<stdin>")
	if err != nil {
		return err
	}

	if c.Check {
		return exitIf(!bytes.Equal(src, out), run.ExitPartial)
	}

	w := a.stdout
	if !a.isTerminal(w) {
		w = textutil.Raw(w) // editors replace their text with this, which may have CRLF line ends
	}
	_, err = w.Write(out)
	return err
}

func (c *fmtCmd) file(a *app, path string) (changed bool, err error) {
	src, err := fileutil.ReadText(path)
	if err != nil {
		return false, err
	}

	out, err := a.format(src, path)
	if err != nil || bytes.Equal(src, out) {
		return false, err
	}

	if c.Diff {
		a.stdout.Write(diff.Diff("old/"+path, src, "new/"+path, out))
	} else {
		fmt.Fprintln(a.stdout, path)
	}

	if c.Check {
		return true, nil
	}

	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}

	if err := fileutil.WriteNamed(path, fileutil.Bytes(out)); err != nil {
		return false, err
	}

	return true, os.Chmod(path, info.Mode().Perm())
}

// format returns the formatted source. It rejects source that does not parse, because formatting could
// move a brace that the user is about to repair.
func (a *app) format(src []byte, name string) ([]byte, error) {
	files, diags := map[string]*hcl.File{}, config.TooDeep(src, name)
	if !diags.HasErrors() {
		files[name], diags = hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	}

	if diags.HasErrors() {
		a.diagnose(files, diags)
		return nil, exitError(run.ExitError)
	}

	return hclwrite.Format(src), nil
}
