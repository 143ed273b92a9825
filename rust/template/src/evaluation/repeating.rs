//! Records the iterations of loops and the calls of macros, and repeats those of an [`IterationMemo`].

use std::rc::Rc;

use crate::evaluation::flow::{Flow, LeftBehind};
use crate::evaluation::iteration_memo::{
    Effects, IterationMemo, IterationRecording, IterationSubject, LoopSite, MOST_BYTES, MemoKey,
    MemoNode, OuterRead, SeenValue,
};
use crate::evaluation::loop_invariants::LoopInvariants;
use crate::evaluation::render::Interpreter;
use crate::failure::RenderResult;
use crate::json::Map;
use crate::language::tree::{Expression, ForLoop, Macro, Slot, Variable, VariableLoad};
use crate::values::arguments::CallArguments;
use crate::values::value::{Dict, Value};

fn site_of<T>(it: &T) -> LoopSite {
    std::ptr::from_ref(it).addr()
}

impl<'r, 'm: 'r> Interpreter<'r, '_, 'm> {
    /// True if the iterations of a loop may be known.
    pub(crate) fn remembers(&self, statement: &ForLoop) -> bool {
        let Some(memo) = &self.memo else { return false };
        let is_outermost = !self.is_recording && self.frames.is_empty();
        let site = site_of(statement);
        is_outermost
            && memo.loops.contains_key(&site)
            && !memo.is_vain(site)
            && !self.holds_generators()
    }

    /// Runs an iteration for `item` of a loop that is [remembered](Self::remembers), or repeats it.
    pub(crate) fn run_remembered(
        &mut self,
        statement: &'r ForLoop,
        item: &Value<'r>,
    ) -> RenderResult<Flow> {
        let object = match (item, &self.memo) {
            (Value::Dict(Dict::Data(object)), Some(memo)) => {
                Some(*object).filter(|object| memo.objects.contains(&std::ptr::from_ref(*object)))
            }
            _ => None,
        };
        let Some(object) = object else { return self.run_scope(&statement.scope) };
        let key = MemoKey { site: site_of(statement), subject: IterationSubject::Object(object) };
        if let Some(flow) = self.repeat_known(&key, Some(object))? {
            return Ok(flow);
        }
        let printed = self.output.text.len();
        let recording = self.begin_recording(key);
        let flow = self.run_scope(&statement.scope);
        if let (Some(recording), Ok(flow)) = (self.end_recording(recording), &flow)
            && *flow != Flow::Break
        {
            let printed = self.output.text[printed..].into();
            self.keep_recording(recording, *flow, printed);
        }
        flow
    }

    /// Runs a call of a macro, or repeats it.
    pub(crate) fn call_remembered(
        &mut self,
        definition: &'r Macro,
        arguments: CallArguments<'r>,
        caller: Value<'r>,
    ) -> RenderResult<Value<'r>> {
        let is_outermost = !self.is_recording && self.frames.is_empty();
        let memo = self.memo.as_ref().filter(|memo| {
            is_outermost && matches!(caller, Value::Undefined) && !memo.is_vain(site_of(definition))
        });
        let seen = memo.and_then(|memo| {
            let positional = arguments.positional.iter().map(|value| ("", value));
            let named = arguments.named.iter().map(|(name, value)| (*name, value));
            let all = positional.chain(named);
            all.map(|(name, value)| Some((name.into(), memo.seen(value)?))).collect::<Option<_>>()
        });
        let Some(seen) = seen.filter(|_| !self.holds_generators()) else {
            return self.call_macro(definition, arguments, caller);
        };
        let key = MemoKey { site: site_of(definition), subject: IterationSubject::Arguments(seen) };
        if let (Some(_), text) = self.capture(|it| it.repeat_known(&key, None))? {
            return Ok(text);
        }
        let recording = self.begin_recording(key);
        let result = self.call_macro(definition, arguments, caller);
        if let (Some(recording), Ok(Value::String(text))) = (self.end_recording(recording), &result)
        {
            self.keep_recording(recording, Flow::Next, (**text).into());
        }
        result
    }

    /// Begins to record. Returns the number of spans so far, if it does.
    fn begin_recording(&mut self, key: MemoKey) -> Option<usize> {
        let memo = self.memo.as_mut().filter(|memo| memo.bytes < MOST_BYTES)?;
        memo.counts.entry(key.site).or_default().recorded += 1;
        memo.current = Some(IterationRecording {
            key,
            reads: Vec::new(),
            assigned: Vec::new(),
            namespaces: Vec::new(),
            is_spoiled: false,
            work: self.meter.done(),
            left: self.left,
        });
        self.is_recording = true;
        Some(self.output.spans.len())
    }

    /// Ends a recording that [has begun](Self::begin_recording), and returns it if it may be kept.
    fn end_recording(&mut self, spans: Option<usize>) -> Option<IterationRecording> {
        self.is_recording = false;
        let spans = spans?;
        let recording = self.memo.as_mut()?.current.take()?;
        Some(recording).filter(|it| !it.is_spoiled && spans == self.output.spans.len())
    }

    /// Keeps an iteration or a call that has ended.
    fn keep_recording(&mut self, recording: IterationRecording, flow: Flow, printed: Box<str>) {
        let mut assigned: Vec<(Slot, Box<str>, SeenValue)> =
            Vec::with_capacity(recording.assigned.len());
        for (slot, name) in &recording.assigned {
            if assigned.iter().any(|(known, before, _)| known == slot && before == name) {
                continue;
            }
            let Value::Namespace(attributes) = self.get(*slot) else { return };
            let attributes = attributes.borrow();
            let seen = attributes.get(name).zip(self.memo.as_ref());
            let Some(seen) = seen.and_then(|(value, memo)| memo.seen(value)) else { return };
            let is_reproducible = match &seen {
                SeenValue::Object(object) => {
                    recording.key.subject == IterationSubject::Object(*object)
                }
                SeenValue::Objects(_) | SeenValue::Macro(_) | SeenValue::Function(_) => false,
                _ => true,
            };
            if !is_reproducible {
                return;
            }
            assigned.push((*slot, name.clone(), seen));
        }
        let left = LeftBehind {
            assigned: self.left.assigned - recording.left.assigned,
            looked: self.left.looked - recording.left.looked,
            generators: self.left.generators - recording.left.generators,
        };
        let effects =
            Effects { printed, assigned, flow, work: self.meter.done() - recording.work, left };
        if let Some(memo) = &mut self.memo {
            memo.keep(recording, effects);
        }
    }

    /// Repeats an iteration or a call, if one is known that reads what is there now.
    fn repeat_known(
        &mut self,
        key: &MemoKey,
        object: Option<&'r Map>,
    ) -> RenderResult<Option<Flow>> {
        let Some(memo) = self.memo.take() else { return Ok(None) };
        let (before, left) = (self.meter.mark(), self.left);
        let mut node = memo.known.get(key);
        while let Some(MemoNode::Read(read, branches)) = node {
            let value = match read {
                OuterRead::Expression(number) => {
                    let outer = &memo.reads(key.site).expressions;
                    self.evaluate(outer[*number].expression).ok()
                }
                OuterRead::Slot(slot) => Some(self.get(*slot).clone()),
                OuterRead::Input(number) => Some(self.inputs[*number].clone()),
            };
            let follows = |value: &Value<'_>| {
                branches.iter().find(|(seen, _)| IterationMemo::is_as(seen, value))
            };
            node = value.as_ref().and_then(follows).map(|(_, next)| next);
        }
        // To look is no work of the template.
        self.meter.rewind(before);
        self.left = left;
        let result = match node {
            Some(MemoNode::Done(effects)) => self.apply(effects, object).map(Some),
            _ => Ok(None),
        };
        if let Ok(Some(_)) = result {
            memo.counts.entry(key.site).or_default().repeated += 1;
        }
        self.memo = Some(memo);
        result
    }

    /// Repeats the effects of an iteration or a call.
    fn apply(&mut self, effects: &Effects, object: Option<&'r Map>) -> RenderResult<Flow> {
        self.meter.repeat(effects.work)?;
        self.meter.hold(effects.printed.len())?;
        self.output.text.push_str(&effects.printed);
        for (slot, name, seen) in &effects.assigned {
            let text = |text: &str| self.meter.string(text.to_owned());
            let value = match seen {
                SeenValue::Undefined => Value::Undefined,
                SeenValue::Bool(value) => Value::Bool(*value),
                SeenValue::Int(value) => Value::Int(*value),
                SeenValue::Float(bits) => Value::Float(f64::from_bits(*bits)),
                SeenValue::Text(seen) => text(seen)?,
                SeenValue::SafeText(seen) => match text(seen)? {
                    Value::String(text) => Value::Safe(text),
                    other => other,
                },
                SeenValue::Object(_) => {
                    object.map_or(Value::None, |it| Value::Dict(Dict::Data(it)))
                }
                SeenValue::None
                | SeenValue::Objects(_)
                | SeenValue::Macro(_)
                | SeenValue::Function(_) => Value::None,
            };
            if let Value::Namespace(attributes) = self.get(*slot) {
                attributes.borrow_mut().insert(name.clone(), value);
            }
        }
        let LeftBehind { assigned, looked, generators } = effects.left;
        self.left.assigned += assigned;
        self.left.looked += looked;
        self.left.generators += generators;
        Ok(effects.flow)
    }

    /// The value of an expression while an iteration is recorded, if it is an outer one of the loop.
    pub(crate) fn evaluate_recorded(
        &mut self,
        expression: &'r Expression,
    ) -> Option<RenderResult<Value<'r>>> {
        let (current, reads) = self.current_recording()?;
        let Some(&number) = reads.numbers.get(&std::ptr::from_ref(expression)) else {
            // `loop` itself may be read anywhere.
            if reads.is_loop(expression) {
                self.spoil_recording();
            }
            return None;
        };
        let read = &reads.expressions[number];
        let is_own = current.assigned.iter().any(|(slot, name)| read.reads_attribute(*slot, name));
        // Of what the iteration has assigned itself, and of other things, the parts are looked at one by one.
        if is_own && !read.is_one_attribute {
            if matches!(expression, Expression::Name(_)) {
                self.spoil_recording();
            }
            return None;
        }
        self.is_recording = false;
        let value = self.evaluate(expression);
        self.is_recording = true;
        match &value {
            Ok(_) if is_own => {}
            Ok(value) => self.note_read(OuterRead::Expression(number), value),
            Err(_) => self.spoil_recording(),
        }
        Some(value)
    }

    /// The iteration that is recorded, and the reads of its loop.
    fn current_recording(&self) -> Option<(&IterationRecording, &LoopInvariants<'m>)> {
        let memo = self.memo.as_ref()?;
        let current = memo.current.as_ref()?;
        Some((current, memo.reads(current.key.site)))
    }

    /// Notes that the scope of an iteration, or of a macro, is entered.
    pub(crate) fn note_load(&mut self, load: &VariableLoad) {
        let (read, value) = match load {
            VariableLoad::Parameter | VariableLoad::Undefined => return,
            VariableLoad::Input(number) => {
                (OuterRead::Input(*number), self.inputs[*number].clone())
            }
            VariableLoad::Copy(slot) => {
                let Some((_, reads)) = self.current_recording() else { return };
                if reads.is_slot_of_loop(*slot) {
                    self.spoil_recording();
                    return;
                }
                if !reads.is_outer(*slot) {
                    return;
                }
                (OuterRead::Slot(*slot), self.get(*slot).clone())
            }
        };
        self.note_read(read, &value);
    }

    fn note_read(&mut self, read: OuterRead, value: &Value<'r>) {
        let Some(memo) = &mut self.memo else { return };
        let Some(current) = &memo.current else { return };
        if current.reads.iter().any(|(known, _)| *known == read) {
            return;
        }
        let seen = memo.seen(value);
        let Some(current) = &mut memo.current else { return };
        match seen {
            Some(seen) => current.reads.push((read, seen)),
            None => current.is_spoiled = true,
        }
    }

    fn spoil_recording(&mut self) {
        if let Some(current) = self.memo.as_mut().and_then(|memo| memo.current.as_mut()) {
            current.is_spoiled = true;
        }
    }

    /// Notes an assignment to an attribute of the namespace in a variable.
    pub(crate) fn note_assigned(&mut self, name: &Variable, attribute: &str) {
        let Value::Namespace(attributes) = self.get(name.slot) else { return };
        let address = Rc::as_ptr(attributes).cast::<()>();
        let Some((current, reads)) = self.current_recording() else { return };
        if current.namespaces.contains(&address) {
            return;
        }
        if !reads.is_outer(name.slot) {
            self.spoil_recording();
        } else if let Some(current) = self.memo.as_mut().and_then(|memo| memo.current.as_mut()) {
            current.assigned.push((name.slot, attribute.into()));
        }
    }

    /// Notes that a namespace was made.
    pub(crate) fn note_namespace(&mut self, namespace: &Value<'r>) {
        if let Value::Namespace(attributes) = namespace
            && let Some(current) = self.memo.as_mut().and_then(|memo| memo.current.as_mut())
        {
            current.namespaces.push(Rc::as_ptr(attributes).cast());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;

    use chrono::NaiveDateTime;

    use crate::evaluation::input::Input;
    use crate::evaluation::iteration_memo::IterationMemo;
    use crate::evaluation::render::{FollowedParts, RenderOutput};
    use crate::json::{Json, Map};
    use crate::language::tree::Template;
    use crate::render_limits::{Allowance, Meter};

    /// Templates, and whether their loops are ever repeated.
    const TEMPLATES: [(&str, bool); 25] = [
        ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", true),
        (
            "{% for m in messages %}{% if loop.last %}[last]{% endif %}{% if loop.first %}[{{ loop.length }}]{% endif %}\
             {{ m.content }}{{ '!' if add_generation_prompt }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}",
            true,
        ),
        (
            "{% set ns = namespace(last=-1, n=0) %}{% for m in messages[::-1] %}{% if ns.last < 0 and m.role == 'user' %}\
             {% set ns.last = messages | length - 1 - loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}\
             {% if loop.index0 > ns.last %}(new){% endif %}{{ m.content }}{% endfor %}{{ ns.last }}",
            true,
        ),
        (
            "{% set ns = namespace(n=0, role='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% if ns.role == m.role %}same\
             {% endif %}{% set ns.role = m.role %}{{ ns.n }}{{ ns.role }}{% endfor %}{{ ns.n }}{{ ns.role }}",
            true,
        ),
        (
            "{% for m in messages %}{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}<t>{% endif %}{{ m.content }}\
             {% if loop.last or messages[loop.index0 + 1].role != 'tool' %}</t>{% endif %}{% endfor %}",
            true,
        ),
        (
            "{% for m in messages %}{{ loop.previtem.role if loop.previtem }}{{ loop.nextitem.role if loop.nextitem is defined }}{{ m.content }}{% endfor %}",
            true,
        ),
        (
            "{% set sep = '|' %}{% macro show(m, n) %}{{ sep }}{{ m.role }}{{ n }}{{ messages | length }}{% endmacro %}\
             {% for m in messages %}{{ show(m, loop.index) }}{% endfor %}",
            true,
        ),
        (
            "{% set sep = '|' %}{% macro show(m, n) %}{{ sep }}{{ m.role }}{{ n }}{% endmacro %}\
             {% for m in messages %}{{ show(m, loop.index) }}{% endfor %}",
            true,
        ),
        (
            "{% set ns = namespace(n=0) %}{% macro count(by) %}{% set ns.n = ns.n + by %}{{ ns.n }}{{ 'p' if add_generation_prompt }}\
             {% endmacro %}{{ count(1) }}{{ count(by=2) }}{{ count(1) }}{{ ns.n }}{% for m in messages %}{{ m.content }}{% break %}{% endfor %}",
            true,
        ),
        (
            "{% macro each(all, n=2) %}{% for m in all %}{{ m.role }}{{ loop.index }}{{ n }}{% endfor %}{% endmacro %}{{ each(messages) }}\
             {{ each(messages[:1], n=3) }}{{ each([1], 1) if false }}",
            true,
        ),
        (
            "{% for m in messages %}{% for later in messages[loop.index:] %}{{ later.role[0] }}{{ loop.index }}{% endfor %};{% endfor %}",
            true,
        ),
        (
            "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% endfor %}",
            true,
        ),
        (
            "{% for m in messages %}{% if m.role == 'tool' %}{% break %}{% endif %}{{ m.content }}{% endfor %}",
            true,
        ),
        (
            "{% set users = messages | selectattr('role', 'equalto', 'user') %}{% for m in messages %}{{ users | length if false }}\
             {% for u in users %}{{ u.content }}{% endfor %}{{ m.role }}{% endfor %}",
            false,
        ),
        (
            "{% set users = messages | selectattr('role', 'equalto', 'user') | list %}{% for m in messages %}\
             {% if m == users[-1] %}*{% endif %}{{ m.content }}{{ users | length }}{% endfor %}",
            true,
        ),
        (
            "{% set ns = namespace(n=0) %}{% for m in messages %}{% set n = ns %}{% set ns.n = ns.n + 1 %}{{ n.n }}{% endfor %}",
            false,
        ),
        (
            "{% for m in messages %}{% set own = namespace(found=false) %}{% for x in m.content %}{% set own.found = true %}\
             {% endfor %}{{ own.found }}{{ m.content }}{% endfor %}",
            true,
        ),
        (
            "{% for m in messages if m.role != 'tool' %}{{ loop.index }}{{ loop.last }}{{ m.content }}{% endfor %}",
            true,
        ),
        (
            "{% for m in messages %}{% set text %}{{ m.content }}{% if loop.last %}.{% endif %}{% endset %}{{ text | upper }}{% endfor %}",
            true,
        ),
        (
            "{% set ns = namespace(first=true) %}{% for m in messages %}{% if ns.first and not loop.last %}F{% endif %}\
             {% set ns.first = false %}{% if ns.first or loop.last %}L{% endif %}{{ m.content }}{% endfor %}",
            true,
        ),
        (
            "{% set ns = namespace(a='a', b='b') %}{% for m in messages %}{% set ns.b = 'x' %}{{ ns['a'] ~ loop.last }}{% set ns.a = m.role %}\
             {% endfor %}",
            false,
        ),
        (
            "{% set ns = namespace(message={}) %}{% for m in messages %}{{ ns.message.role }}{% set ns.message = m %}{{ m.content }}{% endfor %}",
            true,
        ),
        (
            "{% set all = messages %}{% set ns = namespace(kept=[]) %}{% for m in all %}{% set ns.kept = ns.kept + [m] %}{{ m.content }}\
             {{ ns.kept | length }}{% endfor %}{% for m in ns.kept %}{{ m.role }}{{ loop.revindex }}{% endfor %}",
            true,
        ),
        (
            "{% for m in messages %}{% if m.role == 'tool' and loop.last %}{{ raise_exception('a tool') }}{% endif %}{{ m.content }}{% endfor %}",
            true,
        ),
        (
            "{% set text %}{% for m in messages %}{{ m.content }}{{ loop.index if m.role == 'user' }}{% endfor %}{% endset %}{{ text | trim }}",
            true,
        ),
    ];

    fn message(role: &str, content: &str) -> Map {
        [("role", role), ("content", content)]
            .into_iter()
            .map(|(key, value)| (Arc::from(key), Json::String(value.into())))
            .collect()
    }

    #[test]
    fn iterations_that_are_never_repeated_are_not_recorded_for_ever() {
        let source = "{% for m in messages %}{{ bos_token }}{{ m.content }}{% endfor %}";
        let template = Template::compile(source).expect("a template");
        let messages: Vec<Map> = (0..8).map(|n| message("user", &n.to_string())).collect();
        let conversation: Vec<Cow<'_, Map>> = messages.iter().map(Cow::Borrowed).collect();
        let mut memo = IterationMemo::new(&template, messages.iter());
        for round in 0..100 {
            let token = round.to_string();
            let input = |name: &str| match name {
                "messages" => Some(Input::Objects(&conversation)),
                _ => Some(Input::Text(&token)),
            };
            let meter = Meter::new(Allowance::RECORD, &|| 0, None);
            let output = template.render_following(
                NaiveDateTime::default(),
                input,
                FollowedParts::Memo(&mut memo),
                &meter,
            );
            let text: String = (0..8).flat_map(|n| [token.clone(), n.to_string()]).collect();
            assert_eq!(output.map(|output| output.text), Ok(text));
        }
        let counts = memo.counts.values().next().expect("the loop");
        assert_eq!(counts.repeated, 0);
        // As many as four for each message, and some more.
        assert!((32..=104).contains(&counts.recorded), "{counts:?}");
    }

    #[test]
    fn a_render_with_a_memo_is_as_one_without() {
        let roles =
            ["system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant"];
        let messages: Vec<Map> =
            (0..).zip(roles).map(|(n, it)| message(it, &format!(" t{n} "))).collect();
        let other = message("assistant", "other");
        for (source, repeats) in TEMPLATES {
            let template = Template::compile(source).expect("a template");
            let mut memo = IterationMemo::new(&template, messages.iter());
            for round in 0..3 {
                for count in 1..=messages.len() {
                    for (prompt, replaced) in
                        [(false, false), (true, false), (false, true), (true, round == 1)]
                    {
                        let mut conversation: Vec<Cow<'_, Map>> =
                            messages[..count].iter().map(Cow::Borrowed).collect();
                        if replaced {
                            conversation[count - 1] = Cow::Owned(other.clone());
                        }
                        let input = |name: &str| match name {
                            "messages" => Some(Input::Objects(&conversation)),
                            "add_generation_prompt" => Some(Input::Bool(prompt)),
                            _ => None,
                        };
                        let (one, two) =
                            [(); 2].map(|()| Meter::new(Allowance::RECORD, &|| 0, None)).into();
                        let alone = template.render(NaiveDateTime::default(), input, None, &one);
                        let again = template.render_following(
                            NaiveDateTime::default(),
                            input,
                            FollowedParts::Memo(&mut memo),
                            &two,
                        );
                        let text = |it: Result<_, _>| it.map(|it: RenderOutput| it.text);
                        assert_eq!(text(again), text(alone), "{source}, {count} messages");
                    }
                }
            }
            let repeated: usize = memo.counts.values().map(|counts| counts.repeated).sum();
            assert_eq!(repeated > 0, repeats, "{source} has repeated {repeated} iterations");
        }
    }
}
