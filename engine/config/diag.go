package config

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

func errorAt(at hcl.Range, summary, format string, args ...any) hcl.Diagnostics {
	return stage.ErrorAt(at, summary, format, args...)
}

// shortRange formats a range as file:line.
func shortRange(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }

func didYouMean(given string, candidates []string) string { return stage.DidYouMean(given, candidates) }

// unique removes repeated diagnostics with the same text, address and range.
func unique(diags hcl.Diagnostics) hcl.Diagnostics {
	type key struct {
		summary, detail, address string
		at                       hcl.Range
	}

	seen := map[key]bool{}
	out := diags[:0:0]
	for _, d := range withoutFollowers(diags) {
		k := key{summary: d.Summary, detail: d.Detail, address: DiagAddress(d)}
		if d.Subject != nil {
			k.at = *d.Subject
		}
		if !seen[k] {
			out = append(out, d)
		}

		seen[k] = true
	}

	return out
}

// follower is the Extra of an error that may be caused by another one: the missing name may be
// declared by an invalid block.
type follower struct{}

// withoutFollowers removes errors that are consequences of others, and the second of two "Invalid
// operand" errors of one expression.
func withoutFollowers(diags hcl.Diagnostics) hcl.Diagnostics {
	follows := func(d *hcl.Diagnostic) bool {
		_, ok := hcl.DiagnosticExtra[follower](d)
		return ok
	}
	explained := slices.ContainsFunc(diags,
		func(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagError && !follows(d) })

	misspelled := misspelledArguments(diags)
	var out hcl.Diagnostics
	for i, d := range diags {
		if explained && follows(d) || misspelled[d] {
			continue
		}
		if i > 0 && d.Summary == "Invalid operand" && diags[i-1].Summary == d.Summary && d.Context != nil &&
			diags[i-1].Context != nil && *d.Context == *diags[i-1].Context {
			continue
		}

		out = append(out, d)
	}

	return out
}

var (
	missingArgument = regexp.MustCompile(`^The argument "([^"]+)" is required`)
	meantArgument   = regexp.MustCompile(`Did you mean "([^"]+)"\?`)
)

// misspelledArguments returns the errors about missing arguments that are there under another name:
// the hint of another error names them.
func misspelledArguments(diags hcl.Diagnostics) map[*hcl.Diagnostic]bool {
	out := map[*hcl.Diagnostic]bool{}
	for _, d := range diags {
		meant := meantArgument.FindStringSubmatch(d.Detail)
		if d.Summary != "Unsupported argument" || d.Subject == nil || meant == nil {
			continue
		}

		var nearest *hcl.Diagnostic // the last block that begins before the misspelled name
		for _, m := range diags {
			missing := missingArgument.FindStringSubmatch(m.Detail)
			if missing == nil || missing[1] != meant[1] || m.Subject == nil || out[m] || DiagAddress(m) != DiagAddress(d) ||
				m.Subject.Filename != d.Subject.Filename || m.Subject.Start.Line > d.Subject.Start.Line {
				continue
			}
			if nearest == nil || nearest.Subject.Start.Byte < m.Subject.Start.Byte {
				nearest = m
			}
		}
		if nearest != nil {
			out[nearest] = true
		}
	}

	return out
}

// atAddress is the Extra of diagnostics about one stage instance.
type atAddress struct {
	address string
	extra   any // previous Extra of the diagnostic
}

// UnwrapDiagnosticExtra implements hcl.DiagnosticExtraUnwrapper.
func (a atAddress) UnwrapDiagnosticExtra() any { return a.extra }

// WithAddress records the stage instance that the diagnostics are about, unless one is already
// recorded.
func WithAddress(diags hcl.Diagnostics, address string) hcl.Diagnostics {
	for _, d := range diags {
		if DiagAddress(d) == "" {
			d.Extra = atAddress{address: address, extra: d.Extra}
		}
	}
	return diags
}

// DiagAddress returns the address of the stage instance that a diagnostic is about, or "".
func DiagAddress(d *hcl.Diagnostic) string {
	a, _ := hcl.DiagnosticExtra[atAddress](d)
	return a.address
}

// included is implemented by the Extra of diagnostics about a block in a part. IncludedAt returns
// the detail without the places of the includes, and these places. Text returns the detail with the
// given places.
type included interface {
	IncludedAt() (detail string, places []string)
	Text(places []string) string
}

// Merged merges diagnostics that several stages report for the same block of a part. The result
// keeps the address of the first stage and lists all places that include the part.
func Merged(diags hcl.Diagnostics) hcl.Diagnostics {
	type key struct {
		summary, detail string
		at              hcl.Range
	}
	type group struct {
		diag   *hcl.Diagnostic
		places []string
	}

	groups := map[key]*group{}
	var out hcl.Diagnostics
	for _, d := range diags {
		in, ok := hcl.DiagnosticExtra[included](d)
		if !ok || d.Subject == nil {
			out = append(out, d)
			continue
		}

		detail, places := in.IncludedAt()
		k := key{d.Summary, detail, *d.Subject}
		g := groups[k]
		if g == nil {
			first := *d
			g = &group{diag: &first}
			groups[k] = g
			out = append(out, g.diag)
		}

		for _, p := range places {
			if !slices.Contains(g.places, p) {
				g.places = append(g.places, p)
			}
		}

		g.diag.Detail = in.Text(g.places)
	}

	return out
}

// WriteDiagnostics prints diagnostics with snippets and values for people. Width 0 means no
// wrapping.
func WriteDiagnostics(w io.Writer, files map[string]*hcl.File, diags hcl.Diagnostics, width uint, color bool) error {
	dw := hcl.NewDiagnosticTextWriter(w, files, width, color)
	for _, d := range Merged(diags) {
		d = withoutSensitive(hinted(d, files))
		shown := *d
		shown.Detail += knownAttributes(d)
		if a := DiagAddress(d); a != "" {
			shown.Detail += "\n  with " + a
		}

		if d.Subject != nil && (files[d.Subject.Filename] == nil || len(lineOf(d, files)) > longestLine) {
			// The file is missing or could not be parsed at all, so there is no line to show, or the line is too long.
			place := d.Subject.Filename
			if at := d.Subject.Start; at != hcl.InitialPos {
				place = fmt.Sprintf("%s:%d:%d", place, at.Line, at.Column)
			}
			shown.Subject, shown.Detail = nil, place+": "+shown.Detail
		}

		if err := dw.WriteDiagnostic(&shown); err != nil {
			return err
		}
	}

	return nil
}

// longestLine is the length of a source line, in bytes, above which it is not shown.
const longestLine = 1000

// lineOf returns the source line in which the subject of a diagnostic begins, or "".
func lineOf(d *hcl.Diagnostic, files map[string]*hcl.File) string {
	f := files[subjectFile(d)]
	if f == nil || !d.Subject.CanSliceBytes(f.Bytes) {
		return ""
	}
	from := bytes.LastIndexByte(f.Bytes[:d.Subject.Start.Byte], '\n') + 1
	line, _, _ := bytes.Cut(f.Bytes[from:], []byte("\n"))
	return strings.TrimRight(string(line), "\r")
}

// knownAttributes returns a suggestion to append if HCL reports an attribute or a key that an object does not have.
func knownAttributes(d *hcl.Diagnostic) string {
	if d.EvalContext == nil || d.Summary != "Unsupported attribute" && d.Summary != "Invalid index" {
		return ""
	}

	switch e := d.Expression.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		for n := len(e.Traversal) - 1; n > 0; n-- {
			v, diags := e.Traversal[:n].TraverseAbs(d.EvalContext)
			if diags.HasErrors() {
				continue
			}
			switch missing := e.Traversal[n].(type) {
			case hcl.TraverseAttr:
				return otherAttributes(v, cty.StringVal(missing.Name))
			case hcl.TraverseIndex:
				return otherAttributes(v, missing.Key)
			}
		}

	case *hclsyntax.IndexExpr:
		v, _ := e.Collection.Value(d.EvalContext)
		key, _ := e.Key.Value(d.EvalContext)
		return otherAttributes(v, key)
	}

	return ""
}

// otherAttributes returns a suggestion for key if v is an object without it. The names in a sensitive object are
// secret.
func otherAttributes(v, key cty.Value) string {
	if v.IsMarked() || key.IsMarked() || !v.IsKnown() || v.IsNull() || !v.Type().IsObjectType() || !stage.IsText(key) ||
		v.Type().HasAttribute(key.AsString()) {
		return ""
	}

	names := slices.DeleteFunc(namesOf(v.Type().AttributeTypes()),
		func(name string) bool { return name == "ref" }) // internal reference to the block
	return didYouMean(key.AsString(), names)
}

// DiagJSON is the JSON form of a diagnostic.
type DiagJSON struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
	Address  string `json:"address,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Snippet  string `json:"snippet,omitempty"`
}

// ToJSON converts a diagnostic for --json output.
func ToJSON(d *hcl.Diagnostic, files map[string]*hcl.File) DiagJSON {
	d = withoutSensitive(hinted(d, files))
	out := DiagJSON{Severity: "error", Summary: d.Summary, Detail: d.Detail + knownAttributes(d),
		Address: DiagAddress(d)}
	if d.Severity == hcl.DiagWarning {
		out.Severity = "warning"
	}

	if d.Subject != nil {
		out.File, out.Line, out.Column = d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column
		out.Snippet = lineOf(d, files)
	}

	return out
}
