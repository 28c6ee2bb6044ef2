"""Reads `sasl.jaas.config` as Kafka's Java client does: one login module with its options.

Kafka's JaasConfig takes the line apart with `java.io.StreamTokenizer`: words, texts in `"` or `'` with
backslash escapes, comments, numbers (which are no values there), a `;` at the end. The Python clients want
user and password alone, so what Java would refuse, or read otherwise, must be refused here first. Errors say
where something is wrong and quote nothing: anything in the line may be a secret.
"""

from dataclasses import dataclass

FLAGS = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
END = ""
NUMBER = "number"
WORD = "word"
DIGITS = frozenset("0123456789.-")
OCTAL = frozenset("01234567")
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# StreamTokenizer's characters are 16 bits wide; what it reads for the end of the text is -1.
NO_CHARACTER = "\uffff"
FIRST_LETTER = 160


class JaasError(ValueError):
    """Java's client would refuse the line; the message holds nothing of it."""


@dataclass(frozen=True, slots=True)
class Login:
    """A login module's class name and options."""

    module: str
    options: dict[str, str]

    @property
    def name(self) -> str:
        """The module's name without its package."""
        return self.module.rpartition(".")[2]


def parse(text: str) -> Login:
    """Return the one login module of a line. Raises JaasError where Java's client raises."""
    tokens, found = _Tokens(text), list[Login]()
    while tokens.next() != END:
        found.append(_entry(tokens))
    if not found:
        raise JaasError("it names no login module")
    if len(found) > 1:
        raise JaasError(f"it names {len(found)} login modules, and one is allowed")
    return found[0]


def _entry(tokens: "_Tokens") -> Login:
    module = tokens.text
    if tokens.next() == END:
        raise JaasError("no `required` stands behind the login module")
    if tokens.text is None or tokens.text.upper() not in FLAGS:
        raise JaasError(_advice("`required` must stand behind the login module", module))
    options: dict[str, str] = {}
    while tokens.next() != END and tokens.kind != ";":
        key = tokens.text
        if tokens.next() != "=" or tokens.next() == END or tokens.text is None:
            raise JaasError(f'option {len(options) + 1} has no value: write `name="value"`, with quotes')
        options[key or ""] = tokens.text
    if tokens.kind != ";":
        raise JaasError("it must end with `;`")
    if not module:
        raise JaasError("it must begin with the class name of a login module")
    return Login(module, options)


def _advice(what: str, module: str | None) -> str:
    """Recognise a whole JAAS file, `KafkaClient { … };`, of which only what is inside belongs here."""
    if module in {"KafkaClient", "Client", "KafkaServer"}:
        return f"it is a whole JAAS file: leave out `{module} {{` and the last `}};`"
    return what


class _Tokens:
    """java.io.StreamTokenizer, as Kafka's JaasConfig sets it up.

    kind: WORD, NUMBER, END, a quote or any other single character. text: of a word or a quoted text alone.
    """

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.kind = END
        self.text: str | None = None

    def next(self) -> str:
        """Take the next token and return its kind."""
        self.text = None
        self._skip()
        first = self._peek()
        if first == END:
            self.kind = END
        elif first in DIGITS:
            self.kind = self._number()
        elif _is_letter(first):
            self.kind, self.text = WORD, self._word()
        else:
            self._at += 1
            self.kind = first
            if first in {'"', "'"}:
                self.text = self._quoted(first)
        return self.kind

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else END

    def _take(self) -> str:
        found = self._peek()
        self._at += 1
        return found

    def _skip(self) -> None:
        """Pass over blanks and comments; a lone `/` begins one, too."""
        while (found := self._peek()) != END:
            if found <= " ":
                self._at += 1
            elif found == "/":
                self._skip_comment()
            else:
                return

    def _skip_comment(self) -> None:
        text, at = self._text, self._at
        if text.startswith("/*", at):
            end = text.find("*/", at + 2)
            self._at = len(text) if end < 0 else end + 2
            return
        # Java takes what follows a lone `/` for a part of the comment, a line break too.
        ends = [end for end in (text.find("\n", at + 2), text.find("\r", at + 2)) if end >= 0]
        self._at = min(ends, default=len(text))

    def _number(self) -> str:
        """Pass over a number; a `-` that begins none stands for itself."""
        if self._peek() == "-":
            self._at += 1
            follows = self._peek()
            if follows == END or follows not in DIGITS - {"-"}:
                return "-"
        dots = 0
        while (found := self._peek()) != END and found in DIGITS - {"-"}:
            dots += found == "."
            if dots > 1:
                break
            self._at += 1
        return NUMBER

    def _word(self) -> str:
        start = self._at
        while (found := self._peek()) != END and (found in DIGITS or _is_letter(found)):
            self._at += 1
        return self._text[start : self._at]

    def _quoted(self, quote: str) -> str:
        """Return a text up to its quote, or to the end of its line, where Java ends it as well."""
        found = []
        while (one := self._peek()) not in {END, quote, "\n", "\r"}:
            self._at += 1
            found.append(self._escaped() if one == "\\" else one)
        if one == quote:
            self._at += 1
        return "".join(found)

    def _escaped(self) -> str:
        first = self._take()
        if first == END:
            return NO_CHARACTER
        if first not in OCTAL:
            return ESCAPES.get(first, first)
        digits = first
        while len(digits) < (3 if first <= "3" else 2) and (more := self._peek()) != END and more in OCTAL:
            digits += more
            self._at += 1
        return chr(int(digits, 8))


def _is_letter(one: str) -> bool:
    return (one.isascii() and one.isalpha()) or one in "-_$" or ord(one) >= FIRST_LETTER
