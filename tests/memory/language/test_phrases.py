"""What is noted of a user's own words without a model: corrections, rules and wishes, and facts."""

from dataclasses import replace
from typing import Any

import pytest

from layerlore.memory.digest.digest import MOST_FACTS, DigestNote, digest, rank_notes, take_notes, weigh_extract
from layerlore.memory.language.sentences import LONGEST
from layerlore.memory.language.word_lists import texts
from layerlore.memory.parts.parts import text_part, tool_call_part, tool_result_part
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.storage.core.records import Message, Role

COUNTER = TokenCounter(None)

CORRECTIONS = (
    "No, the channel is #fin-alerts, not #finance-alerts.",
    "I said Tuesday, not Thursday.",
    "no, it's 4,200 euros",
    "Actually the order number is A-88213.",
    "Actually, it's Marta with a t, not Marda.",
    "Sorry, I meant the staging cluster.",
    "Correction: the deadline is 14 March, not 12 March.",
    "That's wrong, my flight is KL1204.",
    "You mixed up the two accounts: mine ends in 4471.",
    "Scratch that, use port 8443.",
    "The branch should be release/2.4 instead of release/2.3.",
    "wait, the table is called customers_v2",
    "Not the blue one, the green one.",
    "My mistake, the meeting starts at 15:30.",
    "it's Katharina with a K, by the way, you keep writing Catharina",
    "We moved: the new address is 12 Harbour Street.",
    "Our budget changed to 3,500 a month.",
    "Please change that: the contact is Ivo Brandt, no longer Petra Lang.",
    "I never said 20 people, I said 12.",
    "Nicht Montag, sondern Mittwoch.",
    "Nein, das Budget liegt bei 4.200 Euro.",
    "Ich meinte die Rechnung 2024-117, nicht 2024-171.",
    "Das stimmt nicht, mein Name ist Jürgen Weiß.",
    "No es el lunes sino el miércoles.",
    "No, quise decir la factura 8812.",
    "Non, je voulais dire le 14 mars.",
    "Ce n'est pas Dupond mais Dupont.",
    "Ce n'est pas vrai, il s'agit du compte 5512.",
    "No, intendevo il volo AZ610.",
    "Na verdade, o endereço é Rua das Flores 22.",
    "Não é o João, mas sim a Joana.",
    "Nee, ik bedoelde de testserver.",
    "Niet dinsdag maar donderdag.",
    "Nie, chodziło mi o fakturę 77/2024.",
    "To nie wtorek, tylko czwartek.",
    "Нет, я имел в виду заказ 5521.",
    "Не вторник, а четверг.",
    "Hayır, salı değil perşembe.",
    "火曜日ではなく木曜日です。",
    "화요일이 아니라 목요일이에요.",
    "Hold on, the invoice is for March, not April.",
    "nope, gate B12",
    "Sorry, wrong ticket: I mean OPS-3391.",
    "Make that 25 seats rather than 20.",
    "The region isn't eu-west-1, it's eu-central-1.",
    "I misspoke before, the cutoff is 17:00 UTC.",
    "You've got the name wrong, she is called Mireille.",
    "Change of plan: we meet in Graz instead of Linz.",
    "The limit is 50, not 500!",
    "Forget what I said about Friday, Monday is the day.",
    "Es sind 35 Lizenzen, nicht 53.",
    "Falsch, die Kundennummer ist K-90012.",
    "Me equivoqué, el pedido es el 7731.",
    "Je me suis trompé, c'est le quai 9.",
    "Mi sono sbagliato, il codice è QX-19.",
    "Enganei-me, a reunião é às 16h.",
    "Ik vergiste me, het is kamer 214.",
    "Pomyliłem się, to sala 12.",
    "Я ошибся, рейс SU2031.",
    "Yanlış söyledim, oda 305.",
)
RULES = (
    "From now on reply in German.",
    "Please always cc Ana on invoices.",
    "Don't touch the billing service.",
    "I want you to ask me before you delete anything.",
    "Make sure that every commit message starts with the ticket number.",
    "Unless I say so, do not merge to main.",
    "No emojis.",
    "No emojis please, and no tables.",
    "Keep answers short.",
    "Use metric units.",
    "I prefer window seats.",
    "I'd rather have bullet points than paragraphs.",
    "Call me Jo.",
    "Answer in at most three sentences.",
    "Whenever you change the schema, run the migration check.",
    "Never email customers directly.",
    "Before you deploy, ask me first.",
    "Going forward, round prices to two decimals.",
    "Only contact me by email.",
    "Stick to Python 3.11.",
    "You may not spend more than 200 euros.",
    "Nobody but Lena may approve refunds.",
    "Refunds above 500 go to Lena for approval.",
    "Please stop apologising.",
    "The production database is off limits.",
    "I don't want any calls before 9.",
    "Let's keep everything in English.",
    "We don't deploy on Fridays.",
    "Please respond formally, with Sie.",
    "Ab sofort bitte auf Deutsch antworten.",
    "Bitte keine Emojis.",
    "Ich möchte, dass du vorher fragst.",
    "Halte die Antworten kurz.",
    "Ruf mich nie vor 10 Uhr an.",
    "De ahora en adelante responde en español.",
    "Prefiero asiento de pasillo.",
    "Sin emojis, por favor.",
    "Dorénavant, réponds en français.",
    "Je préfère les trains de nuit.",
    "Pas d'emojis s'il te plaît.",
    "D'ora in poi rispondi in italiano.",
    "Preferisco il treno.",
    "Niente emoji per favore.",
    "De agora em diante responda em português.",
    "Prefiro hotéis no centro.",
    "Voortaan graag in het Nederlands.",
    "Geen emoji's alsjeblieft.",
    "Od teraz odpowiadaj po polsku.",
    "Wolę pociąg.",
    "Отныне отвечай по-русски.",
    "Я предпочитаю поезд.",
    "Bundan sonra Türkçe cevap ver.",
    "以后请用中文回答。",
    "これからは日本語で答えてください。",
    "앞으로는 한국어로 답해 주세요.",
    "Do not, under any circumstances, rotate the keys yourself.",
    "Always show me the diff first.",
    "Please be brief.",
    'Please don\'t use the word "delve".',
    "Just give me the command, no explanations.",
    "Every reply must end with the ticket number.",
    "In future, send reports as CSV.",
    "If you are unsure, ask instead of guessing.",
    "I hate phone calls, write to me instead.",
    "Prices incl. VAT, always.",
    "Treat anything from legal@ as confidential.",
    "Don't ever use rm -rf.",
    "My preference is aisle seats near the front.",
    "You need my approval for anything above 1,000.",
    "Please address me as Dr. Okafor.",
    "I'd like you to explain things like I'm a beginner.",
    "Let me know before you send anything out.",
    "Speak to me in French from here on.",
    "We only use Postgres, nothing else.",
    "Bitte immer die Quelle angeben.",
    "Ich will keine Werbung bekommen.",
    "Frag mich, bevor du etwas löschst.",
    "Responde siempre con frases cortas.",
    "No me llames antes de las nueve.",
    "Demande-moi avant d'envoyer quoi que ce soit.",
    "Non mandarmi notifiche la sera.",
    "Não me envie lembretes à noite.",
    "Stuur me geen herinneringen in het weekend.",
    "Nie dzwoń do mnie przed dziewiątą.",
    "Не звони мне до девяти.",
    "Beni dokuzdan önce arama.",
)
FACTS = (
    "My name is Teresa Novak.",
    "I'm allergic to shellfish.",
    "My order number is 4471-AC.",
    "Our budget is 12,000 euros.",
    "The deadline is 30 June.",
    "I live at 14 Linden Road, Cork.",
    "you can reach me at +43 660 555123",
    "My sister's name is Ines and she is coming with us.",
    "I'm vegetarian.",
    "We are four people, two of them children.",
    "The customer is Hartmann GmbH, account 88120.",
    "The staging server is stg-eu-2.internal.",
    "My doctor is Dr. Selim.",
    "I use a wheelchair.",
    "I broke my ankle last week.",
    "Ich heiße Anna Berger.",
    "Ich bin gegen Nüsse allergisch.",
    "Unser Budget beträgt 5.000 Euro.",
    "Me llamo Lucía Ortega.",
    "Soy alérgico a la penicilina.",
    "Je m'appelle Hugo Petit.",
    "Mi chiamo Paola Riva.",
    "Meu nome é Rui Costa.",
    "Mijn naam is Bram de Wit.",
    "Nazywam się Ewa Nowak.",
    "Меня зовут Олег.",
    "Adım Zeynep.",
    "我叫王伟。",
    "Hi, this is Dana Whitfield, customer no. 5521-88.",
    "I've got two cats and a toddler.",
    "I was born in 1984.",
    "We fly on the 3rd of May from Vienna.",
    "It arrived broken on Tuesday.",
    "My laptop is a ThinkPad X1, serial PF-3XK91.",
    "The VPN gateway runs at 10.20.0.1.",
    "I can spend at most 900 euros.",
    "I'm diabetic.",
    "Je suis végétarien.",
    "Sono celiaco.",
    "Wir wohnen in der Lindengasse 4.",
)
NEITHER = (
    "Thanks, that works.",
    "ok go on",
    "No problem, take your time.",
    "No idea why it does that.",
    "No worries.",
    "No, thanks.",
    "Actually, could you also check the logs?",
    "Can you look at the second test?",
    "What does this function do?",
    "Looks good, continue.",
    "Don't worry about it.",
    "Hmm, interesting.",
    "Not sure.",
    "Not yet.",
    "Sounds good, keep going.",
    "Great, not bad at all.",
    "Which one is faster?",
    "Let me think about it.",
    "I see, and then?",
    "It is raining here, not nice.",
    "Fine by me.",
    "And the other file?",
    "Why is that?",
    "Let's see what happens.",
    "Okay, next.",
    "Could you run it again?",
    "That is nice, not what I expected though.",
    "No rush.",
    "You always know what to say!",
    "Actually that's a good idea.",
    "No, I haven't tried that yet.",
)


def message(seq: int, role: Role, text: str) -> Message:
    return Message("t", seq, f"m{seq}", role, None, [text_part(text)], {}, 10, "", 0, seq * 1000, 1)


def said_to_an_agent(text: str) -> list[DigestNote]:
    notes = take_notes([message(1, "user", text), message(2, "assistant", "ok")])
    return [note for note in notes if note.role == "user"]


@pytest.mark.parametrize("text", CORRECTIONS)
def test_a_correction_is_critical_and_a_kind_of_its_own(text: str) -> None:
    notes = said_to_an_agent(text)
    assert ("correction", "critical", text) in [(note.kind, note.marker, note.text) for note in notes]


@pytest.mark.parametrize("text", RULES)
def test_a_rule_a_standing_wish_and_a_preference_are_critical(text: str) -> None:
    assert [(note.marker, note.text) for note in said_to_an_agent(text)] == [("critical", text)]


@pytest.mark.parametrize("text", FACTS)
def test_a_fact_about_the_user_outweighs_everything_an_agent_says(text: str) -> None:
    (note,) = said_to_an_agent(text)
    prose = "Done: I decided that release 2.1 of A-2291 at https://example.com/x is deployed on Monday for $300."
    (agents,) = take_notes([message(1, "assistant", prose)])
    assert note.text == text
    assert note.weight > agents.weight


@pytest.mark.parametrize("text", NEITHER)
def test_what_only_sounds_like_one_of_these_is_none(text: str) -> None:
    assert {note.kind for note in said_to_an_agent(text)} <= {"word"}


def test_a_sentence_that_only_takes_back_is_noted_with_the_one_that_says_what_is_true() -> None:
    for text in ("No. The gate is B12.", "That's wrong. It's 4,200 euros.", "Sorry! The contact is Ivo Brandt."):
        assert [(note.kind, note.text) for note in said_to_an_agent(text)] == [("correction", text)]


def test_what_comes_after_a_sentence_that_takes_back_is_a_correction_too() -> None:
    taken_back, put_right, _ = said_to_an_agent(
        "I gave you the wrong number earlier. It's 0664 1234567. We met in Oslo."
    )
    assert (taken_back.kind, put_right.kind) == ("correction", "correction")


def test_lines_that_a_program_wrote_are_no_word_of_the_user_who_shows_them() -> None:
    log = "\n".join(
        f"2026-04-2{n}T08:45:50Z INFO connection from 10.243.112.4{n} must not be accepted" for n in range(9)
    )
    notes = said_to_an_agent(f"{log}\nPeak traffic is around 08:30 our time.")
    assert max(notes, key=lambda note: note.weight).text == "Peak traffic is around 08:30 our time."
    assert {note.kind for note in notes[:-1]} == {"word"}


def test_sentences_of_a_user_may_begin_small() -> None:
    text = "the last change looks good. change of plan: it ships on 11 April :) never deploy ledger-api on a Friday"
    assert [note.kind for note in said_to_an_agent(text)] == ["correction", "rule"]


def test_people_who_talk_to_each_other_correct_and_rule_no_agent() -> None:
    said = [
        replace(message(1, "user", "No, the film is on Tuesday, not Thursday."), name="Ann"),
        replace(message(2, "user", "I prefer window seats."), name="Bo"),
    ]
    assert {note.kind for note in take_notes(said)} == {"word"}


def test_every_telling_sentence_of_a_message_is_kept() -> None:
    sentences = (
        "My name is Teresa Novak.",
        "My order number is 4471-AC.",
        "I'm allergic to shellfish.",
        "The deadline is 30 June.",
        "Never call me before 9.",
        "No emojis please.",
        "Our budget is 12,000 euros.",
    )
    assert [note.text for note in said_to_an_agent(" ".join(sentences))] == list(sentences)
    rules = " ".join(f"Never open door {number}." for number in range(30))
    assert len(said_to_an_agent(rules)) == 30
    many = " ".join(f"The code of door {number} is {number}-AC." for number in range(30))
    assert len(said_to_an_agent(many)) == MOST_FACTS


def test_a_long_sentence_of_a_user_keeps_all_that_is_telling_in_it_in_stretches() -> None:
    filler = "and then we talked for a while about this and that, as one does on such days, " * 4
    text = f"So the customer is Hartmann GmbH with account 88120, {filler}but never send anything to port 8443, {filler}bye"
    notes = said_to_an_agent(text)
    assert all(len(note.text) <= LONGEST for note in notes)
    assert "Hartmann GmbH with account 88120" in notes[0].text
    assert notes[0].text.endswith("…")
    assert ("critical", True) in [(note.marker, "never send anything to port 8443" in note.text) for note in notes]


def test_users_corrections_and_rules_come_first_then_their_facts_and_agents_prose_last() -> None:
    messages = [
        message(1, "assistant", "We decided that release 2.1 at https://example.com/a is deployed to stg-eu-2 today."),
        message(2, "user", "The customer is Hartmann GmbH, account 88120."),
        message(3, "assistant", "I can confirm that invoice A-2291 is over $300 and due on Monday."),
        message(4, "user", "Never email customers directly."),
        message(5, "user", "The channel is #fin-alerts, not #finance-alerts."),
    ]
    ranked = rank_notes(take_notes(messages))
    assert [note.seq for note in ranked[:3]] == [5, 4, 2]
    assert {note.role for note in ranked[3:]} == {"assistant"}
    assert [note.seq for note in digest(take_notes(messages), COUNTER, 40)] == [4, 5]


def test_a_note_of_a_users_message_is_the_same_whatever_stands_around_it() -> None:
    messages = [message(seq, "user" if seq % 2 else "assistant", text) for seq, text in enumerate((*RULES, *FACTS), 1)]
    whole = [note for note in take_notes(messages) if note.role == "user"]
    for upto in (7, 20, 41):
        assert [note for note in take_notes(messages[:upto]) if note.role == "user"] == [
            note for note in whole if note.seq <= upto
        ]


def test_every_language_of_the_stop_words_has_its_telling_words() -> None:
    for kind in ("correction", "amending", "wish", "fact"):
        assert texts(f"phrases.{kind}").keys() == texts("search.stop_words").keys()


# What tools give


def called(tool: str, result: Any, **arguments: Any) -> DigestNote:
    call, answer = tool_call_part("c1", tool, arguments), tool_result_part("c1", None, result)
    asked, answered = message(1, "assistant", ""), message(2, "tool", "")
    (note,) = take_notes([replace(asked, parts=[call]), replace(answered, parts=[answer])])
    return note


LOG = "\n".join(f"2026-04-19T09:4{n % 10}:41Z INFO  request done path=/api/orders ms={n}" for n in range(40))


@pytest.mark.parametrize(
    ("tool", "result", "told"),
    [
        (
            "push_image",
            "176b9cbf93: Pushed\n51104f4c4e: Pushed\nfd8d86caf7: Pushed\nlatest: digest: sha256:39fb1414b373",
            "39fb1414b373",
        ),
        ("create_snapshot", "Snapshot of the volume started\nid: snap-96dc845e74\nsize: 370 GiB", "snap-96dc845e74"),
        ("run_sql", f"{LOG}\nTicket OPS-4431 was opened for it.", "OPS-4431"),
        (
            "get_logs",
            f"{LOG}\n2026-04-19T09:41:41Z ERROR upstream 10.74.243.38:6935 timed out\n{LOG}",
            "10.74.243.38:6935 timed out",
        ),
        ("list_tickets", [{"id": "T-5510", "title": "a"}, {"id": "T-5511", "title": "b"}], "2 entries: T-5510, T-5511"),
        (
            "upload",
            f"{'Everything went well. ' * 30}\nSaved as https://files.example.com/d/8f3a",
            "https://files.example.com/d/8f3a",
        ),
    ],
)
def test_an_id_an_address_or_an_error_that_a_result_gives_is_told_however_long_it_is(
    tool: str, result: Any, told: str
) -> None:
    assert told in called(tool, result).text


def test_a_failed_run_tells_the_error_and_how_many_failed() -> None:
    trace = "\n".join(f'  File "src/a{n}.py", line {n}' for n in range(30))
    note = called(
        "run_tests", f"{trace}\nImportError: cannot import name 'Cedar' from 'walkers'\n1 failed, 15 passed in 53s"
    )
    assert note.kind == "failure"
    assert "ImportError: cannot import name 'Cedar' from 'walkers', 1 failed, 15 passed in 53s" in note.text


def test_a_result_that_gives_an_id_outweighs_one_that_gives_none_and_an_agents_prose() -> None:
    gives, none = called("create_ticket", "Created OPS-4431."), called("create_ticket", "Created.")
    (prose,) = take_notes([message(1, "assistant", "I decided that OPS-4431 is over $300 and due on Monday.")])
    assert gives.weight > none.weight
    assert gives.weight > prose.weight


def test_a_note_kept_as_a_line_weighs_what_it_weighed_when_it_was_made() -> None:
    said = [message(seq, "user", text) for seq, text in enumerate((*CORRECTIONS, *RULES, *FACTS), 1)]
    calls = [
        called("create_ticket", "Created OPS-4431."),
        called("run_tests", "ImportError: no Cedar\n1 failed, 15 passed in 53s", path="tests"),
        called("get_logs", f"{LOG}\n2026-04-19T09:41:41Z ERROR upstream 10.74.243.38:6935 timed out\n{LOG}"),
        called("get_weather", "21 degrees, sunny", city="Oslo", days=3),
    ]
    for note in (*take_notes(said), *calls):
        assert weigh_extract(f"{note.role}: {note.text}") == pytest.approx(note.weight, abs=0.01), note


def test_what_an_agent_repeats_stays_the_users_word() -> None:
    messages = [
        message(1, "user", "The account is A-88120 of Hartmann GmbH."),
        message(2, "assistant", "The account is A-88120 of Hartmann GmbH."),
    ]
    (note,) = rank_notes(take_notes(messages))
    assert (note.seq, note.role) == (1, "user")
