package config

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// autoVarsSuffix marks files beside a plan whose values are used unasked.
const autoVarsSuffix = ".auto.aicvars.hcl"

// sources parses files once and keeps their text for snippets.
type sources struct {
	parser *hclparse.Parser
	root   string // the plan's folder; positions are shown relative to it
}

func newSources(root string) *sources {
	return &sources{parser: hclparse.NewParser(), root: root}
}

// display is the name that positions of a file carry: as the user would type
// it from the current folder where that is short.
func display(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, ".."+string(filepath.Separator)+"..") {
		return rel
	}
	return path
}

func (s *sources) file(path string) (*hcl.File, hcl.Diagnostics) {
	name := display(path)
	if f, ok := s.parser.Files()[name]; ok {
		return f, nil
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, hcl.Diagnostics{fileDiag(name, "Cannot read the plan", err.Error())}
	}
	return s.parser.ParseHCL(src, name)
}

// fileDiag complains about a file as a whole.
func fileDiag(name, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: detail,
		Subject: &hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos},
	}
}

// planFiles lists what makes up the module at path: the file itself, or every
// plan file of a folder in name order.
func planFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		n := e.Name()
		if !e.IsDir() && strings.HasSuffix(n, ".hcl") && !strings.HasSuffix(n, ".aicvars.hcl") && !strings.HasPrefix(n, ".") {
			out = append(out, filepath.Join(path, n))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the folder %s has no .hcl file", display(path))
	}
	sort.Strings(out)
	return out, nil
}

func autoVarFiles(dir string) []string {
	found, err := filepath.Glob(filepath.Join(dir, "*"+autoVarsSuffix))
	if err != nil {
		return nil
	}
	sort.Strings(found)
	return found
}

// syntaxBody gives the native-syntax body of a file.
func syntaxBody(f *hcl.File) *hclsyntax.Body { return f.Body.(*hclsyntax.Body) }
