package plan

import (
	"encoding/json"
	"regexp"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/sink/base/textutil"
)

// unknownInput returns the first input whose output is not known yet, or "".
func (p *Plan) unknownInput(s *Stage) string {
	for _, in := range s.Config.Inputs() {
		if up := p.byAddr[in.Ref.Address]; up != nil && up.Output == "" {
			return in.Ref.Address
		}
	}

	return ""
}

func (p *Plan) waitsFor(s *Stage) string {
	var names []string
	for _, d := range s.Instance.Deps {
		if up := p.byAddr[d]; up != nil && up.Output == "" {
			names = append(names, d)
		}
	}

	if len(names) == 0 {
		return "another stage"
	}
	return strings.Join(names, ", ")
}

// inputLine matches the explanation of two inputs that differ in one upstream output.
var inputLine = regexp.MustCompile(`^inputs\["[^" ]+ (.+)"\] `)

// staleReason returns the first differences between two inputs in one line.
func staleReason(old, now json.RawMessage) string {
	lines := checkpoint.Explain(old, now)
	for i, l := range lines {
		if strings.HasPrefix(l, "version ") {
			// The other differences may follow from it.
			return "this aicplan works the stage out in another way (" + l + ")"
		}
		if strings.HasPrefix(l, "code ") {
			lines[i] = "this aicplan works the stage out with other code"
			continue
		}
		lines[i] = strings.TrimPrefix(l, "config.")
		if m := inputLine.FindStringSubmatch(l); m != nil {
			lines[i] = strings.ReplaceAll(m[1], `\"`, `"`) + " changed" // without the two digests
		}
	}

	if len(lines) == 0 {
		return "the form of the checkpoint changed"
	}
	return textutil.First(lines, 3, "; ")
}

// ShortDigest returns the first digits of a digest for messages.
func ShortDigest(d string) string {
	d = strings.TrimPrefix(d, "sha256:")
	return d[:min(10, len(d))]
}
