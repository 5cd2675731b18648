"""Django: the migrations of its own applications, its ORM, and inspectdb."""
import io
import os
import sys
import tempfile
import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "cellar", "USER": "cellar",
                           "HOST": "127.0.0.1", "PORT": sys.argv[1]}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
                    "django.contrib.admin", "django.contrib.messages"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True, SECRET_KEY="x",
)
django.setup()
from django.core.management import call_command
from django.contrib.auth.models import Group, Permission, User
from django.db import connection, transaction
from django.db.models import Count, Exists, OuterRef, Window
from django.db.models.functions import RowNumber

call_command("migrate", verbosity=0)
out = io.StringIO()
call_command("showmigrations", stdout=out)
assert "[ ]" not in out.getvalue(), out.getvalue()
user = User.objects.create_user("ada", password="x")
group = Group.objects.create(name="g")
user.groups.add(group)
group.permissions.add(*Permission.objects.filter(codename__startswith="add_"))
assert user.has_perm("auth.add_user") is True
assert User.objects.filter(groups__name__icontains="G", date_joined__year__gte=2000).count() == 1
try:
    with transaction.atomic():
        User.objects.create_user("ada")
    raise SystemExit("two users of one name")
except django.db.IntegrityError:
    pass
# Rows are grouped by the primary key alone, numbered, and looked for by what comes with them.
named = Group.objects.annotate(users=Count("user"), rights=Count("permissions", distinct=True))
assert [(own.name, own.users > 0, own.rights > 0) for own in named.order_by("name")] == [("g", True, True)]
numbered = Permission.objects.annotate(place=Window(RowNumber(), order_by="codename"))
assert [own.place for own in numbered.order_by("codename")[:3]] == [1, 2, 3]
assert Permission.objects.filter(Exists(Group.objects.filter(permissions=OuterRef("pk")))).count() > 0
out = io.StringIO()
call_command("inspectdb", stdout=out)
text = out.getvalue()
assert "class AuthUser(models.Model):" in text and "Unable to inspect" not in text, text
assert "username = models.CharField(unique=True, max_length=150)" in text, text
User.objects.all().delete()
assert User.objects.count() == 0
print("ok", django.get_version())
