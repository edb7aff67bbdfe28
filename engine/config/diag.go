package config

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"aicplan/sink/phrase"
)

func errorAt(r hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: r.Ptr()}
}

func warnAt(r hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: detail, Subject: r.Ptr()}
}

// shortRange is file:line.
func shortRange(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }

// didYouMean is " Did you mean ...?" when a candidate is near, else the
// candidates themselves when they are few, else "".
func didYouMean(given string, candidates []string) string {
	if near := phrase.Nearest(given, candidates); near != "" {
		return " Did you mean " + Quoted(near) + "?"
	}
	if len(candidates) == 0 || len(candidates) > 12 {
		return ""
	}
	return " Known: " + strings.Join(slices.Sorted(slices.Values(candidates)), ", ") + "."
}

// Quoted puts text into quotes; an address with a key into those that a shell
// takes as they are.
func Quoted(name string) string {
	if strings.Contains(name, `"`) && !strings.ContainsAny(name, "'\n") {
		return "'" + name + "'"
	}
	return strconv.Quote(name)
}

// DidYouMean is the suggestion that every message about an unknown name ends
// with; it starts with a space, or is empty.
func DidYouMean(given string, candidates []string) string { return didYouMean(given, candidates) }

// unique leaves out diagnostics that say the same of the same place again.
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

// follower is the Extra of an error that another one explains: what it misses is
// declared, and the declaration is wrong.
type follower struct{}

// withoutFollowers leaves out errors that only follow from others, and the second
// of two operands that fail for one reason.
func withoutFollowers(diags hcl.Diagnostics) hcl.Diagnostics {
	follows := func(d *hcl.Diagnostic) bool {
		_, ok := hcl.DiagnosticExtra[follower](d)
		return ok
	}
	explained := slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagError && !follows(d) })
	var out hcl.Diagnostics
	for i, d := range diags {
		if explained && follows(d) {
			continue
		}
		if i > 0 && d.Summary == "Invalid operand" && diags[i-1].Summary == d.Summary && d.Context != nil && diags[i-1].Context != nil && *d.Context == *diags[i-1].Context {
			continue
		}
		out = append(out, d)
	}
	return out
}

// atAddress is the Extra of diagnostics about one stage instance.
type atAddress struct {
	address string
	extra   any // what the diagnostic had before
}

// UnwrapDiagnosticExtra implements hcl.DiagnosticExtraUnwrapper.
func (a atAddress) UnwrapDiagnosticExtra() any { return a.extra }

// WithAddress notes on each diagnostic which stage instance it is about.
func WithAddress(diags hcl.Diagnostics, address string) hcl.Diagnostics {
	for _, d := range diags {
		if DiagAddress(d) == "" {
			d.Extra = atAddress{address: address, extra: d.Extra}
		}
	}
	return diags
}

// DiagAddress returns the stage instance that a diagnostic is about, or "".
func DiagAddress(d *hcl.Diagnostic) string {
	a, _ := hcl.DiagnosticExtra[atAddress](d)
	return a.address
}

// included is implemented by the Extra of diagnostics about a block that stands
// in a part: the detail without the places of the includes, these places, and
// the detail with others.
type included interface {
	IncludedAt() (detail string, places []string)
	Text(places []string) string
}

// Merged joins diagnostics that several stages report of the same block of a
// part: one mistake is told once, with all the places that include it. It is
// about the first of the stages.
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

// WriteDiagnostics prints diagnostics with snippet and values for people.
// Width 0 means no wrapping.
func WriteDiagnostics(w io.Writer, files map[string]*hcl.File, diags hcl.Diagnostics, width uint, color bool) error {
	dw := hcl.NewDiagnosticTextWriter(w, files, width, color)
	for _, d := range Merged(diags) {
		d = withoutSensitive(hinted(d, files))
		shown := *d
		shown.Detail += knownAttributes(d)
		if a := DiagAddress(d); a != "" {
			shown.Detail += "\n  with " + a
		}
		if d.Subject != nil && files[d.Subject.Filename] == nil {
			// A file that is not there, or was refused as a whole, has no line to show.
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

// knownAttributes is the suggestion behind HCL's own message about an
// attribute that an object lacks.
func knownAttributes(d *hcl.Diagnostic) string {
	e, ok := d.Expression.(*hclsyntax.ScopeTraversalExpr)
	if !ok || d.Summary != "Unsupported attribute" || d.EvalContext == nil {
		return ""
	}
	for n := len(e.Traversal) - 1; n > 0; n-- {
		missing, isAttr := e.Traversal[n].(hcl.TraverseAttr)
		v, diags := e.Traversal[:n].TraverseAbs(d.EvalContext)
		if !isAttr || diags.HasErrors() || !v.IsKnown() || v.IsNull() || !v.Type().IsObjectType() || v.Type().HasAttribute(missing.Name) {
			continue
		}
		var names []string
		for name := range v.Type().AttributeTypes() {
			if name != "ref" { // how a block refers to itself
				names = append(names, name)
			}
		}
		return didYouMean(missing.Name, names)
	}
	return ""
}

// DiagJSON is a diagnostic for machines.
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

// ToJSON converts a diagnostic for -json output.
func ToJSON(d *hcl.Diagnostic, files map[string]*hcl.File) DiagJSON {
	d = withoutSensitive(hinted(d, files))
	out := DiagJSON{Severity: "error", Summary: d.Summary, Detail: d.Detail + knownAttributes(d), Address: DiagAddress(d)}
	if d.Severity == hcl.DiagWarning {
		out.Severity = "warning"
	}
	if d.Subject != nil {
		out.File, out.Line, out.Column = d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column
		if f := files[d.Subject.Filename]; f != nil && d.Subject.CanSliceBytes(f.Bytes) {
			lines := strings.Split(string(f.Bytes), "\n")
			if out.Line >= 1 && out.Line <= len(lines) {
				out.Snippet = strings.TrimRight(lines[out.Line-1], "\r")
			}
		}
	}
	return out
}
