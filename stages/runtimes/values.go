package runtimes

import (
	"github.com/zclconf/go-cty/cty"
)

// at returns an option, or the member of a block's value at a path, with the types of JSON. It returns nil if it is not
// set or not known yet.
func at(v cty.Value, path ...string) any {
	for _, name := range path {
		if v == cty.NilVal || v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() || !v.Type().HasAttribute(name) {
			return nil
		}
		v = v.GetAttr(name)
	}
	plain, err := Plain(v)
	if err != nil {
		return nil
	}
	return plain
}

func textAt(v cty.Value, path ...string) string {
	text, _ := at(v, path...).(string)
	return text
}

func flagAt(v cty.Value, path ...string) bool {
	flag, _ := at(v, path...).(bool)
	return flag
}

// textsAt returns a list of texts, or nil.
func textsAt(v cty.Value, path ...string) []string {
	list, _ := at(v, path...).([]any)
	var out []string
	for _, e := range list {
		text, _ := e.(string)
		out = append(out, text)
	}
	return out
}
