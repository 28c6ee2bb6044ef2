"""Ready-made templates of the webhook receiver: what each service takes in place of our own JSON.

`template: teams` (or `opsgenie`, `discord`, `telegram`) in the configuration names one of them. They see what
every template sees, and the filters `markdown` (escapes markup) and `short` (an id of 32 hex digits). Each
shows names as letters only: Adaptive Cards in text runs, which Teams does not interpret, Discord by escapes,
Telegram without a parse mode. Texts are cut below the limit of their service, in UTF-16 units at worst.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Service:
    """What is posted. `path` is appended to the address; `closes`: the service has an end of an incident."""

    body: str
    path: str = ""
    closes: bool = False


_TEAMS = """{
  {%- set colours = {"critical": "attention", "warning": "warning", "resolved": "good"} %}
  "type": "message",
  "attachments": [{
    "contentType": "application/vnd.microsoft.card.adaptive",
    "contentUrl": null,
    "content": {
      "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
      "type": "AdaptiveCard",
      "version": "1.4",
      "msteams": {"width": "Full"},
      "body": [
        {"type": "RichTextBlock", "inlines": [{
          "type": "TextRun",
          "text": {{ title | tojson }},
          "size": "medium",
          "weight": "bolder",
          "color": {{ colours.get(tone, "accent") | tojson }}
        }]}
        {%- for line in (summary | truncate(2000, True, "…", 0)).splitlines() %},
        {"type": "RichTextBlock", "spacing": "small", "inlines": [
          {"type": "TextRun", "text": {{ line | tojson }}}
        ]}
        {%- endfor %}
      ],
      "actions": [
        {%- for link in links %}
        {"type": "Action.OpenUrl", "title": {{ link.text | tojson }}, "url": {{ link.url | tojson }}}
        {{- "," if not loop.last }}
        {%- endfor %}
      ]
    }
  }]
}"""

_OPSGENIE = """{
  {%- if status == "resolved" or phase == "acknowledged" %}
  "note": {{ (title ~ "\n" ~ summary) | truncate(12000, True, "…", 0) | tojson }},
  {%- else %}
  "message": {{ title | truncate(130, True, "…", 0) | tojson }},
  "alias": {{ thread | short | tojson }},
  "description": {{ text | truncate(12000, True, "…", 0) | tojson }},
  "entity": {{ labels.get("group", labels.get("cluster", "")) | truncate(250, True, "…", 0) | tojson }},
  "tags": ["kafka", {{ tone | tojson }}],
  "details": {
    {%- for name, value in labels.items() %}
    {{ name | tojson }}: {{ value | truncate(250, True, "…", 0) | tojson }}{{ "," if not loop.last }}
    {%- endfor %}
  },
  "priority": {{ {"critical": "P1", "warning": "P3"}.get(tone, "P5") | tojson }},
  {%- endif %}
  "source": "rebalance-monitor"
}"""

_OPSGENIE_PATH = """
{%- if status == "resolved" -%} /{{ thread | short }}/close?identifierType=alias
{%- elif phase == "acknowledged" -%} /{{ thread | short }}/acknowledge?identifierType=alias
{%- endif -%}"""

_DISCORD = """{%- set _links %}{% for link in links %}
[{{ link.text }}](<{{ link.url }}>){% endfor %}{% endset -%}
{
  "allowed_mentions": {"parse": []},
  "embeds": [{
    "title": {{ title | truncate(120, True, "…", 0) | markdown | tojson }},
    "description": {{ (summary | truncate(1500, True, "…", 0) | markdown ~ _links) | tojson }},
    "color": {{ {"critical": 14232864, "warning": 16224265, "resolved": 1226618}.get(tone, 3051770) }}
  }]
}"""

_TELEGRAM = """{%- set _links %}{% for link in links %}
{{ link.text }}: {{ link.url }}{% endfor %}{% endset -%}
{
  "text": {{ ((title ~ "\n" ~ summary) | truncate(1500, True, "…", 0) ~ _links) | tojson }},
  "link_preview_options": {"is_disabled": true}
}"""

SERVICES: dict[str, Service] = {
    "teams": Service(_TEAMS),
    "opsgenie": Service(_OPSGENIE, _OPSGENIE_PATH, closes=True),
    "discord": Service(_DISCORD),
    "telegram": Service(_TELEGRAM),
}
"""Name of the template -> what it posts."""
